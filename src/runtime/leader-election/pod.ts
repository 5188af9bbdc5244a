import type { Pod } from '../kinds/index.ts';

export type ContainerSpec = NonNullable<Pod['spec']>['containers'][number];
export type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

/** A pod's container by name, be it a sidecar: those are among the init containers (KEP-753). */
export function containerOfPod({ spec }: Pod, name: string): ContainerSpec | undefined {
  return [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].find((container) => container.name === name);
}

/** What the kubelet says of a pod's container, be it a sidecar. */
export function statusOfContainer({ status }: Pod, name: string): ContainerStatus | undefined {
  const { containerStatuses = [], initContainerStatuses = [] } = status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find((container) => container.name === name);
}
