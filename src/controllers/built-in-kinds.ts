import type {
  V1CronJob,
  V1Deployment,
  V1Job,
  V1PersistentVolumeClaim,
  V1Pod,
  V1Service,
  V1StatefulSet,
} from '@kubernetes/client-node';
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

const coreV1 = { group: '', version: 'v1' } as const;
const appsV1 = { group: 'apps', version: 'v1' } as const;

/** Keeps like pods running, and replaces them when their template changes. */
export const Deployment = builtInKind<V1Deployment>({ ...appsV1, kind: 'Deployment', plural: 'deployments' });
export type Deployment = ObjectOf<typeof Deployment>;

/** Keeps numbered pods running, each with volumes of its own. */
export const StatefulSet = builtInKind<V1StatefulSet>({ ...appsV1, kind: 'StatefulSet', plural: 'statefulsets' });
export type StatefulSet = ObjectOf<typeof StatefulSet>;

/** One name for many pods. */
export const Service = builtInKind<V1Service>({ ...coreV1, kind: 'Service', plural: 'services' });
export type Service = ObjectOf<typeof Service>;

/** Asks for a volume, and has it. */
export const PersistentVolumeClaim = builtInKind<V1PersistentVolumeClaim>({
  ...coreV1,
  kind: 'PersistentVolumeClaim',
  plural: 'persistentvolumeclaims',
});
export type PersistentVolumeClaim = ObjectOf<typeof PersistentVolumeClaim>;
