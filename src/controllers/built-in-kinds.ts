import type { V1CronJob, V1Job, V1Pod } from '@kubernetes/client-node';
import { builtInKind, type ObjectOf } from '../runtime/index.ts';

/** Runs pods to completion. */
export const Job = builtInKind<V1Job>({ group: 'batch', version: 'v1', kind: 'Job', plural: 'jobs' });
export type Job = ObjectOf<typeof Job>;

/** Makes Jobs by a schedule. */
export const CronJob = builtInKind<V1CronJob>({ group: 'batch', version: 'v1', kind: 'CronJob', plural: 'cronjobs' });
export type CronJob = ObjectOf<typeof CronJob>;

/** Containers that run together on a node. */
export const Pod = builtInKind<V1Pod>({ group: '', version: 'v1', kind: 'Pod', plural: 'pods' });
export type Pod = ObjectOf<typeof Pod>;
