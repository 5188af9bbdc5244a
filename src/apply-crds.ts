import { setTimeout as delay } from 'node:timers/promises';
import { CustomResourceDefinition } from './runtime/client/index.ts';
import { type Client, type CustomKind, customResourceDefinition, type Logger, type ObjectOf } from './runtime/index.ts';

const pollMs = 200;

/**
 * Applies the kinds' CustomResourceDefinitions and waits until each is Established. (The API server may start to serve the
 * objects a moment later.) Existing objects do not change. Needs get, create and patch on these CustomResourceDefinitions.
 *
 * @throws ApiError if the API server refuses one; an Error with the definition's state if the signal ends the wait.
 */
export async function applyCustomResourceDefinitions(
  client: Client,
  kinds: readonly CustomKind[],
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  for (const kind of kinds) {
    // Force: helm, kubectl or an older release may own fields of the definition, which is ours.
    const manifest = customResourceDefinition(kind);
    await client.apply(CustomResourceDefinition, manifest, { force: true, signal });
    log.info({ crd: manifest.metadata.name }, 'applied');
  }
  for (const kind of kinds) {
    const { metadata } = customResourceDefinition(kind);
    await waitUntilEstablished(client, metadata.name, signal);
    log.info({ crd: metadata.name }, 'established');
  }
}

async function waitUntilEstablished(client: Client, name: string, signal: AbortSignal): Promise<void> {
  let state = 'unknown';
  try {
    for (;;) {
      const crd = await client.get(CustomResourceDefinition, { name }, { signal });
      if (isEstablished(crd)) return;
      state = stateOf(crd);
      await delay(pollMs, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Error(`${name} was applied but did not become Established: ${state}`, { cause: error });
  }
}

type Definition = ObjectOf<typeof CustomResourceDefinition>;

/** False for a definition that is being deleted, although the API server still serves it. */
function isEstablished({ metadata, status }: Definition): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  return status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True') ?? false;
}

function stateOf({ metadata, status }: Definition): string {
  if (metadata.deletionTimestamp !== undefined) return 'it is being deleted';
  const conditions = status?.conditions ?? [];
  return (
    conditions.map(({ type, status, message }) => `${type} is ${status}: ${message}`).join('; ') || 'no conditions'
  );
}
