import {
  type Condition,
  findCondition,
  type Kind,
  type KubeObject,
  type ObjectKey,
  type StandardStatus,
} from '../src/runtime/index.ts';
import { eventually } from './eventually.ts';
import type { TestCluster } from './test-cluster.ts';

/** What a test creates or applies: the server sets the generation and ignores what is sent; the type of a stored object has it. */
export const customManifest = <Spec>(key: ObjectKey, spec: Spec) => ({ metadata: { ...key, generation: 0 }, spec });

/** Waits until the condition Ready of an object has the reason, for its current generation, and returns the object. */
export async function withReason<T extends KubeObject & { readonly status?: StandardStatus }>(
  cluster: Pick<TestCluster, 'client'>,
  kind: Kind<T>,
  key: ObjectKey,
  reason: string,
): Promise<T> {
  let last: Condition | undefined;
  const look = async () => {
    const object = await cluster.client.get(kind, key);
    last = findCondition(object.status?.conditions, 'Ready');
    return last?.reason === reason && last.observedGeneration === object.metadata.generation && object;
  };
  return eventually(`${kind.kind} ${key.name} has the reason ${reason}`, look).catch((cause: unknown) => {
    throw new Error(`${kind.kind} ${key.name} never had the reason ${reason}; last: ${JSON.stringify(last)}`, {
      cause,
    });
  });
}
