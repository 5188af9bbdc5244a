import type { Unavailability } from '../cache/informer.ts';
import { type Kind, resourceName } from '../kind/kind.ts';

/** The API server forbade listing or watching a required kind for `cacheSyncTimeoutMs`: a role is missing. */
export class CacheSyncError extends Error {
  override readonly name = 'CacheSyncError';

  constructor(kind: Kind, { verb, namespace, error, sinceMs, lastMs }: Unavailability) {
    const scope = namespace === undefined ? 'at the cluster scope' : `in the namespace ${namespace}`;
    const wait = `${Math.round((lastMs - sinceMs) / 1000)} s`;
    super(
      `no permission to ${verb} ${resourceName(kind)} ${scope} for ${wait}: grant list and watch (${error.message})`,
      {
        cause: error,
      },
    );
  }
}
