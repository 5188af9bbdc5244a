import type { Client } from '../client/client.ts';
import { getIfPresent } from '../client/get-if-present.ts';
import type { Kind } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';

/**
 * Asks the API server whether a stored object is current: same uid and generation, and not being deleted. A store is
 * stale while its watch lags, or after its connection died silently. Call this before an irreversible action.
 *
 * @throws whatever the client throws, except NotFound.
 */
export async function isCurrent(client: Client, kind: Kind, { metadata }: KubeObject): Promise<boolean> {
  const current = (await getIfPresent(client, kind, metadata))?.metadata;
  if (current === undefined || current.deletionTimestamp !== undefined) return false;
  return current.uid === metadata.uid && current.generation === metadata.generation;
}
