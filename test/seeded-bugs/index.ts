import { kindBugs } from '../plans/index.ts';
import { cacheBugs } from './cache-bugs.ts';
import { runtimeBugs } from './runtime-bugs.ts';
import type { SeededBug } from './seeded-bug.ts';

/** The bugs that `make seeded-bugs` tries. */
export const seededBugs: readonly SeededBug[] = [...runtimeBugs, ...cacheBugs, ...kindBugs];
