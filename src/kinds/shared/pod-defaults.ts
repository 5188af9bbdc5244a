import type { Pod } from '@echoperator/runtime/kinds';
import type { PodMetadata } from './pod-metadata.ts';

type PodSpec = NonNullable<Pod['spec']>;

/**
 * The fields that the operator's settings give to the pods that it creates. The template of a PodSet does not get them.
 */
export interface PodDefaults {
  /** Without the labels that the operator sets. */
  readonly metadata: PodMetadata;
  /** Fields of the pod's spec. */
  readonly spec: Partial<
    Pick<
      PodSpec,
      'imagePullSecrets' | 'nodeSelector' | 'tolerations' | 'affinity' | 'priorityClassName' | 'securityContext'
    >
  >;
  /** Fields of each container. */
  readonly container: Pick<PodSpec['containers'][number], 'securityContext'>;
}

type Quantities = Readonly<Record<string, string | number>>;

/** The resources of a container, as a user writes them. */
export interface ResourceSettings {
  readonly requests?: Quantities;
  readonly limits?: Quantities;
}

/**
 * The resources with each quantity as a string, as the API server stores it: a number would differ from it for ever.
 */
export const resourcesOf = ({ requests, limits }: ResourceSettings) => ({
  ...(requests && { requests: asStrings(requests) }),
  ...(limits && { limits: asStrings(limits) }),
});

const asStrings = (quantities: Quantities): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(quantities).map(([resource, quantity]) => [resource, String(quantity)]));
