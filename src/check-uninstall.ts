import { ApiError, resourceName } from './runtime/client/index.ts';
import { type Client, type Kind, keyOf, keyString } from './runtime/index.ts';

/** A kind whose objects have a finalizer that only the operator removes. */
export interface KindWithFinalizer {
  readonly kind: Kind;
  readonly finalizer: string;
}

/** Objects exist that could not be deleted without the operator. The message lists them. */
export class StillNeededError extends Error {
  override readonly name = 'StillNeededError';
}

const pageSize = 500;

/** Nobody reads a longer list. */
const maxListed = 100;

/**
 * Checks that no object has a finalizer of the operator. Needs `list` on the kinds. A kind that the API server does not serve
 * has no objects.
 *
 * @param options.namespaces the namespaces to check. Default: all.
 * @throws StillNeededError if such an object exists; ApiError and NoResponseError as every request.
 */
export async function checkUninstall(
  client: Client,
  kindsWithFinalizer: readonly KindWithFinalizer[],
  { namespaces, signal }: { readonly namespaces: readonly string[] | undefined; readonly signal: AbortSignal },
): Promise<void> {
  const scopes = namespaces?.map((namespace) => ({ namespace })) ?? [{}];
  const found: string[] = [];
  for (const guarded of kindsWithFinalizer) {
    for (const scope of scopes) found.push(...(await objectsOf(client, guarded, { ...scope, signal })));
  }
  if (found.length === 0) return;
  const listed = found.slice(0, maxListed).map((line) => `  ${line}`);
  if (found.length > maxListed) listed.push(`  and ${found.length - maxListed} more`);
  throw new StillNeededError(
    [
      'the operator is still needed: these objects have a finalizer that only the operator removes.',
      ...listed,
      'Delete them first. To keep them for a later installation: helm uninstall --no-hooks',
    ].join('\n'),
  );
}

async function objectsOf(
  client: Client,
  { kind, finalizer }: KindWithFinalizer,
  scope: { readonly namespace?: string; readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const lines: string[] = [];
  try {
    for (let token: string | undefined, first = true; first || token; first = false) {
      const options = { ...scope, limit: pageSize, ...(token && { continue: token }) };
      const { items, metadata } = await client.listMetadata(kind, options);
      const held = items.filter((object) => object.metadata.finalizers?.includes(finalizer));
      lines.push(...held.map((object) => `${resourceName(kind)} ${keyString(keyOf(object))}`));
      token = metadata.continue;
    }
  } catch (error) {
    if (error instanceof ApiError && error.code === 404) return [];
    throw error;
  }
  return lines;
}
