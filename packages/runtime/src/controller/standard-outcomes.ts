import type { ApiError } from '../client/api-error.ts';
import { isInexactInteger } from '../client/inexact-integer.ts';
import type { Kind } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import { belongsToPredecessor } from './children.ts';
import type { Outcome } from './outcome.ts';

/**
 * The outcome for a child whose name is taken by an object that the owner does not control, as `apply` reports it.
 * Under `Replacing` the garbage collector will delete that object, because it belongs to a deleted owner of the same
 * name.
 *
 * @param options.problem the statement that the object exists and belongs to somebody else.
 * @param options.advice what a person should do about it.
 */
export function nameTakenOutcome(
  owner: { readonly kind: Kind; readonly object: KubeObject },
  { kind }: Kind,
  holder: KubeObject,
  options: { readonly problem?: string | undefined; readonly advice?: string } = {},
): Pick<Outcome<'NameTaken' | 'Replacing'>, 'reason' | 'message'> {
  const { name } = holder.metadata;
  const ownerKind = owner.kind.kind;
  if (belongsToPredecessor(holder, owner.kind, owner.object)) {
    const message =
      `${kind} ${name} belongs to an earlier ${ownerKind} of this name: ` +
      'a new one is created when the garbage collector has deleted it';
    return { reason: 'Replacing', message };
  }
  const {
    problem = `a ${kind} named ${name} exists and does not belong to this ${ownerKind}`,
    advice = `delete it, or give the ${ownerKind} another name`,
  } = options;
  return { reason: 'NameTaken', message: `${problem}: ${advice}` };
}

/** The outcome of a child that is being deleted, as `apply` reports it. */
export const replacingOutcome = (
  { kind }: Kind,
  { metadata }: KubeObject,
): Pick<Outcome<'Replacing'>, 'reason' | 'message'> => ({
  reason: 'Replacing',
  message: `${kind} ${metadata.name} is being deleted: a new one is created when it is gone`,
});

/**
 * The outcome of a refusal by the API server. Its message quotes the server and names the request. The request's path
 * names the object.
 */
export function refusedOutcome(refusal: ApiError): Pick<Outcome<'Refused'>, 'reason' | 'message'> {
  const { request, serverMessage } = refusal;
  const refuses = isInexactInteger(refusal) ? 'the operator does not send' : 'the API server refuses';
  return {
    reason: 'Refused',
    message: `${refuses} ${request}: ${serverMessage}; the operator retries at least once a minute`,
  };
}
