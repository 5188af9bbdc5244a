import { setTimeout as delay } from 'node:timers/promises';
import { type Client, type CustomKind, customResourceDefinition, type Logger } from './runtime/index.ts';
import { CustomResourceDefinition } from './runtime/kinds/index.ts';

const pollMs = 200;

/**
 * Applies the CustomResourceDefinitions of the kinds, over whatever is there under their names, and waits until the
 * API server calls each established, which may be a moment before it serves its objects. Objects stay as they are. Needs
 * get, create and patch on those CustomResourceDefinitions.
 *
 * @throws ApiError when the server refuses one; an Error that tells the definition's state when the signal ends the wait.
 */
export async function applyCustomResourceDefinitions(
  client: Client,
  kinds: readonly CustomKind[],
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  for (const kind of kinds) {
    // By force: helm, kubectl or an older release may own the fields, and the definition is ours to give.
    const manifest = customResourceDefinition(kind);
    await client.apply(CustomResourceDefinition, manifest, { force: true, signal });
    log.info({ crd: manifest.metadata.name }, 'applied');
  }
  for (const kind of kinds) {
    const { metadata } = customResourceDefinition(kind);
    await established(client, metadata.name, signal);
    log.info({ crd: metadata.name }, 'established');
  }
}

async function established(client: Client, name: string, signal: AbortSignal): Promise<void> {
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
    throw new Error(`${name} was applied, but the API server does not serve it; its state: ${state}`, { cause: error });
  }
}

/** One on its way out is served still, but not for long. */
function isEstablished({ metadata, status }: CustomResourceDefinition): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  return status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True') ?? false;
}

function stateOf({ metadata, status }: CustomResourceDefinition): string {
  if (metadata.deletionTimestamp !== undefined) return 'it is being deleted';
  const conditions = status?.conditions ?? [];
  return (
    conditions.map(({ type, status, message }) => `${type} is ${status}: ${message}`).join('; ') || 'no conditions'
  );
}
