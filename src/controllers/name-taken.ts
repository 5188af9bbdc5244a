import { belongsToPredecessor } from '../runtime/controller/index.ts';
import type { Kind, KubeObject } from '../runtime/index.ts';

/** Why a child cannot be created or changed for now. */
export interface BlockedChild<R extends string> {
  readonly reason: R | 'Replacing';
  readonly message: string;
}

/**
 * An object that the owner does not control has the name of a child.
 *
 * `Replacing` if it belongs to an earlier owner of the same name: the garbage collector deletes it, and the DELETED event
 * enqueues the key. Otherwise `taken.reason`, with advice for a person.
 *
 * @param taken `problem` replaces the statement that the object exists and does not belong to the owner.
 */
export function nameTaken<R extends string>(
  owner: { readonly kind: Kind; readonly object: KubeObject },
  child: { readonly kind: Kind; readonly holder: KubeObject },
  taken: { readonly reason: R; readonly advice: string; readonly problem?: string | undefined },
): BlockedChild<R> {
  const { kind } = child.kind;
  const { name } = child.holder.metadata;
  if (belongsToPredecessor(child.holder, owner.kind, owner.object)) {
    const message = `${kind} ${name} belongs to an earlier ${owner.kind.kind} of this name: a new one is created when the garbage collector has deleted it`;
    return { reason: 'Replacing', message };
  }
  const problem = taken.problem ?? `a ${kind} named ${name} exists and does not belong to this ${owner.kind.kind}`;
  return { reason: taken.reason, message: `${problem}: ${taken.advice}` };
}

/** A child is being deleted. Its DELETED event enqueues the key. */
export const beingDeleted = ({ kind }: Kind, { metadata }: KubeObject): BlockedChild<never> => ({
  reason: 'Replacing',
  message: `${kind} ${metadata.name} is being deleted: a new one is created when it is gone`,
});
