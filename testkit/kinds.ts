import type {
  EventsV1Event,
  V1ClusterRoleBinding,
  V1ConfigMap,
  V1Namespace,
  V1ResourceQuota,
  V1Secret,
  V1ServiceAccount,
} from '@kubernetes/client-node';
import { builtInKind, type ObjectOf } from '../src/runtime/index.ts';

/** Kinds of Kubernetes that tests and the benchmark use and the operator does not: see src/controllers/built-in-kinds.ts. */
export const ConfigMap = builtInKind<V1ConfigMap>({
  group: '',
  version: 'v1',
  kind: 'ConfigMap',
  plural: 'configmaps',
});
export type ConfigMap = ObjectOf<typeof ConfigMap>;

export const Secret = builtInKind<V1Secret>({ group: '', version: 'v1', kind: 'Secret', plural: 'secrets' });

export const Event = builtInKind<EventsV1Event>({
  group: 'events.k8s.io',
  version: 'v1',
  kind: 'Event',
  plural: 'events',
});
export type Event = ObjectOf<typeof Event>;

export const Namespace = builtInKind<V1Namespace>({
  group: '',
  version: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  scope: 'Cluster',
});

export const ResourceQuota = builtInKind<V1ResourceQuota>({
  group: '',
  version: 'v1',
  kind: 'ResourceQuota',
  plural: 'resourcequotas',
});

export const ServiceAccount = builtInKind<V1ServiceAccount>({
  group: '',
  version: 'v1',
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
});

export const ClusterRoleBinding = builtInKind<V1ClusterRoleBinding>({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  kind: 'ClusterRoleBinding',
  plural: 'clusterrolebindings',
  scope: 'Cluster',
});
