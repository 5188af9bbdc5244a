import { isNotFound } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import type { Kind } from '../kind/kind.ts';
import { type KubeObject, keyOf } from '../kind/object.ts';
import { type DesiredStatus, statusPatch } from '../kind/status-patch.ts';
import { isCurrent } from './is-current.ts';

/**
 * Patches the status of an object to the desired one with one request, or none if nothing differs. Members that
 * `desired` does not name stay as they are; see {@link statusPatch}.
 *
 * @param object the stored object that the status was computed from.
 * @returns the object with the new status; undefined if nothing was sent.
 * @throws ApiError, `isConflict` when the object has changed since it was read.
 *
 * @example
 * const conditions = setCondition(widget.status?.conditions, ready, new Date());
 * await patchStatus(client, Widget, widget, { observedGeneration: widget.metadata.generation, conditions });
 */
export async function patchStatus<S extends object, T extends KubeObject & { readonly status?: S }>(
  client: Client,
  kind: Kind<T>,
  object: T,
  desired: DesiredStatus<NonNullable<T['status']>>,
): Promise<T | undefined> {
  const patch = statusPatch<NonNullable<T['status']>>(object.status, desired);
  if (patch === undefined) return undefined;
  const { resourceVersion } = object.metadata;
  return client.mergeStatus(kind, { ...keyOf(object), resourceVersion }, patch);
}

/**
 * Like {@link patchStatus}, but an object that no longer exists is not an error. For the last write of a reconcile.
 *
 * @returns the object with the new status; undefined if nothing was sent, or the object no longer exists.
 * @throws whatever the client throws; an Error if the object exists but has no status subresource: its
 *   CustomResourceDefinition is outdated.
 */
export async function patchStatusIfPresent<S extends object, T extends KubeObject & { readonly status?: S }>(
  client: Client,
  kind: Kind<T>,
  object: T,
  desired: DesiredStatus<NonNullable<T['status']>>,
): Promise<T | undefined> {
  try {
    return await patchStatus(client, kind, object, desired);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    // The object was deleted, or its spec was changed, in the meantime. The next event enqueues the key.
    if (!(await isCurrent(client, kind, object))) return undefined;
    throw new Error(
      `the ${kind.kind} exists, but its CustomResourceDefinition has no status subresource: ` +
        'apply the CustomResourceDefinitions of this version',
      {
        cause: error,
      },
    );
  }
}
