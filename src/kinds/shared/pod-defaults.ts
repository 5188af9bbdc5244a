import type { Pod } from '../../runtime/kinds/index.ts';

type PodSpec = NonNullable<Pod['spec']>;

/** The fields that the operator's settings give to the pods that it creates. The template of a PodSet does not get them. */
export interface PodDefaults {
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
