/** What users write: one definition a kind, from which come the types, the CRDs and the printer columns. */
import type { CustomKind } from '../runtime/index.ts';
import { BookStore } from './book-store.ts';
import { Echo } from './echo.ts';
import { PodSet } from './pod-set.ts';
import { ScheduledEcho } from './scheduled-echo.ts';

export { BookStore, Echo, PodSet, ScheduledEcho };

/** Every kind that the operator brings, in the order in which its CRDs are applied. */
export const kinds: readonly CustomKind[] = [Echo, ScheduledEcho, PodSet, BookStore];
