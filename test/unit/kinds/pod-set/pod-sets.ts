import type { ObjectMeta } from '@echoperator/runtime/client';
import { childManifest } from '@echoperator/runtime/controller';
import { Pod } from '@echoperator/runtime/kinds';
import { PodSet } from '../../../../src/kinds/pod-set/kind.ts';
import { newPod, templateHash } from '../../../../src/kinds/pod-set/pod.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';

const creationTimestamp = '2026-01-01T00:00:00Z';

/** A PodSet as the API server stores it, of generation 1 and one replica unless told otherwise. */
export function podSetOf(
  rest: {
    readonly metadata?: Partial<PodSet['metadata']>;
    readonly spec?: Partial<PodSet['spec']>;
    readonly status?: NonNullable<PodSet['status']>;
  } = {},
): PodSet {
  return {
    metadata: {
      name: 'web',
      namespace: 'default',
      uid: 'uid-web',
      resourceVersion: '5',
      generation: 1,
      creationTimestamp,
      ...rest.metadata,
    },
    spec: { replicas: 1, ...rest.spec },
    ...(rest.status && { status: rest.status }),
  };
}

interface Traits {
  readonly phase?: string;
  readonly ready?: boolean;
  /** Since when it is ready, or is not. Default: since it was made. */
  readonly readySince?: string;
  readonly metadata?: Partial<ObjectMeta>;
}

/** A pod that the operator made for the PodSet, on a node of its own; it runs, and is ready, unless told otherwise. */
export function podOf(set: PodSet, name: string, traits: Traits = {}): Pod {
  const { phase = 'Running', ready = phase === 'Running', readySince = creationTimestamp } = traits;
  const child = newPod(set, templateHash(set), name, podSettings);
  const manifest = childManifest({ kind: PodSet, object: set }, Pod, child);
  return {
    ...manifest,
    metadata: { uid: `uid-${name}`, resourceVersion: '6', creationTimestamp, ...manifest.metadata, ...traits.metadata },
    spec: { containers: [], nodeName: `node-of-${name}` },
    status: {
      phase,
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: readySince }],
    },
  };
}
