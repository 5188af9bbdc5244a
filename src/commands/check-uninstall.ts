import { type Client, findCondition, type Kind } from '@echoperator/runtime';
import { ApiError, listPages, resourceName } from '@echoperator/runtime/client';
import type { ReportingObject } from '@echoperator/runtime/controller';
import { printable } from '@echoperator/runtime/process';

/** A kind whose objects have a finalizer that only the operator removes. */
export interface KindWithFinalizer {
  readonly kind: Kind<ReportingObject>;
  readonly finalizer: string;
}

/**
 * Some objects need the operator for their deletion, or may need it. The message lists these objects and says what to
 * do.
 */
export class StillNeededError extends Error {
  override readonly name = 'StillNeededError';
}

/** Nobody reads a longer list. */
const maxListed = 100;

/** What to check, and the release for the commands in the message. */
export interface UninstallCheck {
  /** The namespaces to check. Absent: all. */
  readonly namespaces: readonly string[] | undefined;
  /** The release that Helm would uninstall. Absent: unknown. */
  readonly release: { readonly name: string; readonly namespace: string } | undefined;
  /**
   * The reason of `Ready` of an object whose controller is disabled. The error's message quotes the message of such a
   * condition.
   */
  readonly disabledReason: string;
  readonly signal: AbortSignal;
}

/**
 * Checks that no object has a finalizer of the operator. Needs `list` on the kinds. A kind that the API server does not
 * serve has no objects.
 *
 * @throws StillNeededError if such an object exists, or if a namespace of `namespaces` may not be listed; ApiError and
 *   NoResponseError, like every request.
 */
export async function checkUninstall(
  client: Client,
  kindsWithFinalizer: readonly KindWithFinalizer[],
  { namespaces, release, disabledReason, signal }: UninstallCheck,
): Promise<void> {
  const found: Found[] = [];
  const forbidden = new Set<string>();
  for (const guarded of kindsWithFinalizer) {
    for (const namespace of namespaces ?? [undefined]) {
      try {
        const scope = { ...(namespace !== undefined && { namespace }), signal };
        found.push(...(await objectsOf(client, guarded, { disabledReason, scope })));
      } catch (error) {
        if (namespace === undefined || !(error instanceof ApiError && error.code === 403)) throw error;
        forbidden.add(namespace);
      }
    }
  }
  if (found.length === 0 && forbidden.size === 0) return;
  const uninstall =
    release === undefined ? 'helm uninstall' : `helm uninstall ${release.name} --namespace ${release.namespace}`;
  const lines = [
    ...(found.length > 0 ? linesOf(found, uninstall) : []),
    ...[...forbidden].map(
      (namespace) =>
        `may not list the objects in the namespace "${namespace}". ` +
        "If it was deleted, so were its objects and the operator's Role.",
    ),
    ...(forbidden.size > 0
      ? [`If nothing else is listed here, go on without this check: ${uninstall} --no-hooks`]
      : []),
  ];
  throw new StillNeededError(lines.join('\n'));
}

/** An object with a finalizer of the operator. */
interface Found {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
  /** The message of an object whose controller is disabled. */
  readonly disabled: string | undefined;
}

function linesOf(found: readonly Found[], uninstall: string): readonly string[] {
  const deletions = Map.groupBy(
    found.slice(0, maxListed),
    ({ kind, namespace }) => `  kubectl delete --namespace ${namespace} ${resourceName(kind)}`,
  );
  const disabled = new Map(found.flatMap((each) => (each.disabled ? [[each.kind.kind, each.disabled]] : [])));
  return [
    'the operator is still needed: it must remove its finalizer from some objects. These commands delete them:',
    ...[...deletions].map(([command, objects]) => [command, ...objects.map(({ name }) => name)].join(' ')),
    ...(found.length > maxListed ? [`  and ${found.length - maxListed} more`] : []),
    ...[...disabled.values()].map((message) => `But ${message}`),
    `Then uninstall again: ${uninstall}`,
    `To keep the objects for a later installation: ${uninstall} --no-hooks`,
  ];
}

async function objectsOf(
  client: Client,
  { kind, finalizer }: KindWithFinalizer,
  {
    disabledReason,
    scope,
  }: {
    readonly disabledReason: string;
    readonly scope: { readonly namespace?: string; readonly signal: AbortSignal };
  },
): Promise<readonly Found[]> {
  const found: Found[] = [];
  try {
    for await (const { items } of listPages(client, kind, scope)) {
      for (const { metadata, status } of items) {
        if (!metadata.finalizers?.includes(finalizer)) continue;
        const ready = findCondition(status?.conditions, 'Ready');
        const disabled = ready?.reason === disabledReason ? printable(ready.message) : undefined;
        found.push({ kind, namespace: metadata.namespace ?? '', name: metadata.name, disabled });
      }
    }
  } catch (error) {
    if (error instanceof ApiError && error.code === 404) return [];
    throw error;
  }
  return found;
}
