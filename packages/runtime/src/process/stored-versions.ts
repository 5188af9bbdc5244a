import { CustomResourceDefinition } from '../built-in-kinds/built-in-kinds.ts';
import { isForbidden } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import { getIfPresent } from '../client/get-if-present.ts';
import type { CustomKind } from '../kind/define-kind.ts';
import { resourceName } from '../kind/kind.ts';
import { Backoff } from '../shared/backoff.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';

/** The cluster may hold objects in a version that a kind of the operator lacks. The operator must not run. */
export class StoredVersionError extends Error {
  override readonly name = 'StoredVersionError';
}

/**
 * Checks that a kind with versions has each version in which the cluster may hold objects: `status.storedVersions` of
 * its CustomResourceDefinition. Waits while the API server is unavailable. Without the right to read the definition it
 * only warns, because a missing version also fails each conversion. A definition that does not exist stores nothing.
 *
 * @throws StoredVersionError if the kind lacks a version.
 */
export async function requireStoredVersions(
  client: Pick<Client, 'get'>,
  kind: CustomKind,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const name = resourceName(kind);
  const definition = await read(client, name, log, signal);
  const known = [kind, ...(kind.versions ?? []).map((each) => each.kind)].map(({ version }) => version);
  const missing = definition?.status?.storedVersions?.filter((version) => !known.includes(version)) ?? [];
  if (missing.length === 0) return;
  throw new StoredVersionError(
    `CustomResourceDefinition ${name} may hold objects of ${missing.join(', ')} (status.storedVersions), ` +
      `and the operator has only ${known.join(', ')}: run a version of the operator that has ${missing.join(', ')}, ` +
      'or rewrite the stored objects first',
  );
}

async function read(client: Pick<Client, 'get'>, name: string, log: Logger, signal: AbortSignal) {
  const backoff = new Backoff({ initialMs: 500, maxMs: 10_000 });
  while (!signal.aborted) {
    try {
      return await getIfPresent(client, CustomResourceDefinition, { name }, { signal });
    } catch (error) {
      if (signal.aborted) break;
      if (isForbidden(error)) {
        log.warn({ definition: name }, 'the stored versions are not checked: grant `get` on the definition');
        return undefined;
      }
      const waitMs = Math.round(backoff.next());
      log.warn({ err: error, definition: name, waitMs }, 'the stored versions cannot be read: trying again');
      await pause(waitMs, signal);
    }
  }
  return undefined;
}
