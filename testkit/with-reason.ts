import { type Condition, findCondition, type Kind, type KubeObject, type ObjectKey } from '@echoperator/runtime';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { eventually } from './eventually.ts';
import type { TestCluster } from './test-cluster.ts';

/** A manifest to create or apply. The type requires a generation, which the server ignores and sets itself. */
export const customManifest = <const Spec>(key: ObjectKey, spec: Spec) => ({
  metadata: { ...key, generation: 0 },
  spec,
});

/** Waits until an object's condition Ready has the reason for the current generation, and returns the object. */
export async function withReason<T extends KubeObject & { readonly status?: StandardStatus }>(
  cluster: Pick<TestCluster, 'client'>,
  kind: Kind<T>,
  key: ObjectKey,
  reason: string,
): Promise<T> {
  let last: Condition | undefined;
  const findWithReason = async () => {
    const object = await cluster.client.get(kind, key);
    last = findCondition(object.status?.conditions, 'Ready');
    return last?.reason === reason && last.observedGeneration === object.metadata.generation && object;
  };
  return eventually(`${kind.kind} ${key.name} has the reason ${reason}`, findWithReason).catch((cause: unknown) => {
    throw new Error(`${kind.kind} ${key.name} never had the reason ${reason}; last: ${JSON.stringify(last)}`, {
      cause,
    });
  });
}
