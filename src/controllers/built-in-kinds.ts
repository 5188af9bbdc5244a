import type { V1Job } from '@kubernetes/client-node';
import { builtInKind, type ObjectOf } from '../runtime/index.ts';

/** Runs pods to completion. */
export const Job = builtInKind<V1Job>({ group: 'batch', version: 'v1', kind: 'Job', plural: 'jobs' });
export type Job = ObjectOf<typeof Job>;
