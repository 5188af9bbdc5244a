import type { Pod } from '../../kinds/built-in-kinds.ts';

export type ContainerSpec = NonNullable<Pod['spec']>['containers'][number];
export type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

/** Finds a container of the pod's spec, also a sidecar, which is an init container (KEP-753). */
export function findContainer({ spec }: Pod, name: string): ContainerSpec | undefined {
  return [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].find((container) => container.name === name);
}

/** Finds the status of a container, also of a sidecar. */
export function findContainerStatus({ status }: Pod, name: string): ContainerStatus | undefined {
  const { containerStatuses = [], initContainerStatuses = [] } = status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find((container) => container.name === name);
}
