import { type Client, isNotFound } from '../client/index.ts';
import { type DesiredStatus, type Kind, type KubeObject, keyOf, statusPatch } from '../kind/index.ts';

/**
 * Makes an object's status say what is desired, with one request, and with none if it does so already. What `desired`
 * does not name stays as it is; see {@link statusPatch}.
 *
 * @param object that the status was computed from, as the store has it.
 * @returns the object as it is with the new status; undefined if nothing was sent.
 * @throws ApiError, `isConflict` when the object has changed since it was read.
 *
 * @example
 * const conditions = setCondition(widget.status?.conditions, ready, new Date());
 * await reportStatus(client, Widget, widget, { observedGeneration: widget.metadata.generation, conditions });
 */
export async function reportStatus<S extends object, T extends KubeObject & { readonly status?: S }>(
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
 * Like {@link reportStatus}, for the last write of a reconcile: an object that is gone is no error.
 *
 * @returns the object as it is with the new status; undefined if nothing was sent, or the object is gone.
 * @throws whatever the client throws; an Error if the object is there but has no status to write: its
 *   CustomResourceDefinition is an older one.
 */
export async function writeStatus<S extends object, T extends KubeObject & { readonly status?: S }>(
  client: Client,
  kind: Kind<T>,
  object: T,
  desired: DesiredStatus<NonNullable<T['status']>>,
): Promise<T | undefined> {
  try {
    return await reportStatus(client, kind, object, desired);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    // The object was deleted meanwhile: nobody is left to report to.
    if (!(await isCurrent(client, kind, object))) return undefined;
    throw new Error(`the ${kind.kind} is there, but takes no status: apply this version's CustomResourceDefinition`, {
      cause: error,
    });
  }
}

/**
 * Asks the API server whether an object still is as the store has it: the same uid and generation, and not being deleted. A
 * store is behind while its watch lags, or after its connection died silently. Ask before what cannot be undone.
 *
 * @throws whatever the client throws, except that the object is gone.
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
