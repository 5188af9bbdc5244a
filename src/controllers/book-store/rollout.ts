import type { Deployment, StatefulSet } from '../built-in-kinds.ts';

/** How many pods a Deployment or a StatefulSet wants, and has. */
export interface Rollout {
  readonly desired: number;
  readonly ready: number;
  /** Of the present template. */
  readonly updated: number;
  /** As many as are wanted, all of the present template, all ready, and no others. */
  readonly isComplete: boolean;
}

/** As its controller tells it, once that has seen its present state. */
export function rolloutOf({ metadata, spec, status }: Deployment | StatefulSet): Rollout {
  const desired = spec?.replicas ?? 1;
  const {
    observedGeneration = 0,
    replicas = 0,
    updatedReplicas: updated = 0,
    availableReplicas: ready = 0,
  } = status ?? {};
  const isObserved = observedGeneration >= (metadata.generation ?? 0);
  return {
    desired,
    ready,
    updated,
    isComplete: isObserved && replicas === desired && updated >= desired && ready >= desired,
  };
}
