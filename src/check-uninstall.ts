import { ApiError, type Client, type Kind, keyOf, keyString, resourceName } from './runtime/index.ts';

/** A kind whose objects do not go before the operator has removed what does not go by itself. */
export interface GuardedKind {
  readonly kind: Kind;
  /** What holds an object until then. */
  readonly finalizer: string;
}

/** There are objects that nobody could delete any more without the operator. The message lists them. */
export class StillNeededError extends Error {
  override readonly name = 'StillNeededError';
}

const pageSize = 500;

/** More is not read by anybody. */
const maxListed = 100;

/**
 * Makes sure that nothing waits for the operator, or would when it is deleted. Needs `list` on the kinds. A kind that the
 * API server does not serve has no objects.
 *
 * @param options.namespaces where to look. Default: everywhere.
 * @throws StillNeededError when there is such an object; ApiError and NoResponseError as every request.
 */
export async function checkUninstall(
  client: Client,
  guardedKinds: readonly GuardedKind[],
  { namespaces, signal }: { readonly namespaces: readonly string[] | undefined; readonly signal: AbortSignal },
): Promise<void> {
  const scopes = namespaces?.map((namespace) => ({ namespace })) ?? [{}];
  const found: string[] = [];
  for (const guarded of guardedKinds) {
    for (const scope of scopes) found.push(...(await objectsOf(client, guarded, { ...scope, signal })));
  }
  if (found.length === 0) return;
  const listed = found.slice(0, maxListed).map((line) => `  ${line}`);
  if (found.length > maxListed) listed.push(`  and ${found.length - maxListed} more`);
  throw new StillNeededError(
    [
      'it is still needed: only while it runs can these objects be deleted, for it removes what does not go by itself.',
      ...listed,
      'Delete them first. To leave them, and what they made, for an operator to come: helm uninstall --no-hooks',
    ].join('\n'),
  );
}

async function objectsOf(
  client: Client,
  { kind, finalizer }: GuardedKind,
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
