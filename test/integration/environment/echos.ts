import { Echo } from '../../../src/api/index.ts';
import { type Condition, findCondition, type Manifest, type ObjectKey } from '../../../src/runtime/index.ts';
import type { TestCluster } from './cluster.ts';
import { eventually } from './eventually.ts';

/** What an Echo to create is made of. */
export function echoManifest(
  key: ObjectKey,
  spec: Echo['spec'],
): Manifest<Echo> & { metadata: { generation: number } } {
  // The server sets the generation and ignores what is sent; the type of a stored Echo has it.
  return { metadata: { ...key, generation: 0 }, spec };
}

/** Waits until the condition Ready of an Echo has the reason, for its current generation, and returns the Echo. */
export async function echoWithReason(cluster: TestCluster, key: ObjectKey, reason: string): Promise<Echo> {
  let last: Condition | undefined;
  const look = async () => {
    const echo = await cluster.client.get(Echo, key);
    last = findCondition(echo.status?.conditions, 'Ready');
    return last?.reason === reason && last.observedGeneration === echo.metadata.generation && echo;
  };
  return eventually(`Echo ${key.name} has the reason ${reason}`, look, 60_000).catch((cause: unknown) => {
    throw new Error(`Echo ${key.name} never had the reason ${reason}; last: ${JSON.stringify(last)}`, { cause });
  });
}
