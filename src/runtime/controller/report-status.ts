import type { Client } from '../client/index.ts';
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
