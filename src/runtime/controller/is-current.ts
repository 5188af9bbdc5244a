import { type Client, isNotFound } from '../client/index.ts';
import type { Kind, KubeObject } from '../kind/index.ts';

/**
 * Asks the API server whether a stored object is current: same uid and generation, and not being deleted. A store is stale
 * while its watch lags, or after its connection died silently. Call this before an irreversible action.
 *
 * @throws whatever the client throws, except NotFound.
 */
export async function isCurrent(client: Client, kind: Kind, { metadata }: KubeObject): Promise<boolean> {
  try {
    const { uid, generation, deletionTimestamp } = (await client.get(kind, metadata)).metadata;
    return uid === metadata.uid && generation === metadata.generation && deletionTimestamp === undefined;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
