import { isDeepStrictEqual } from 'node:util';
import { conditionsIn } from '../kind/condition.ts';
import type { KubeObject } from '../kind/object.ts';
import type { ReportingObject } from './outcome.ts';
import type { Predicate } from './predicate.ts';

// Published as `predicates`. Deleting and recreating an object yields two deltas.

/**
 * True if `metadata.generation` changed. The API server raises it when the spec changes, and when an object that has
 * finalizers is deleted, but not for the status, labels, annotations or other metadata. True for `added` and `deleted`,
 * which have nothing to compare, and for every delta of a kind that has no generation.
 */
export const generationChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  delta.object.metadata.generation === undefined ||
  delta.object.metadata.generation !== delta.previous.metadata.generation;

/**
 * True if anything changed except the messages of the conditions. Use it if another writer of the same conditions
 * changes only their messages. It is not needed to avoid a loop: what the key's own reconcile writes does not enqueue
 * the key.
 */
export const ignoringConditionMessages: Predicate<ReportingObject> = (delta) =>
  delta.type !== 'modified' || !isDeepStrictEqual(withoutMessages(delta.previous), withoutMessages(delta.object));

function withoutMessages({ metadata, status, ...rest }: ReportingObject): object {
  const { resourceVersion: _, ...lasting } = metadata;
  const conditions = conditionsIn(status?.conditions).map(({ message: _message, ...condition }) => condition);
  return { ...rest, metadata: lasting, status: { ...status, conditions } };
}

/** True if the object was deleted, or if it has just got a `deletionTimestamp`. */
export const deletion: Predicate<KubeObject> = (delta) =>
  delta.type === 'deleted' ||
  (delta.object.metadata.deletionTimestamp !== undefined &&
    (delta.type === 'added' || delta.previous.metadata.deletionTimestamp === undefined));

// The first signature of `or` infers the object's type from the context: otherwise an untyped function beside
// `generationChanged` would get a KubeObject. The second infers it from the predicates.

/**
 * True if any predicate returns true.
 *
 * @example predicates.or(predicates.generationChanged, predicates.deletion)
 *
 * @example
 * manager.controller(Widget, {
 *   predicate: predicates.or(predicates.generationChanged, (delta) => delta.object.status?.conditions === undefined),
 *   reconcile,
 * });
 */
export function or<T extends KubeObject>(...predicates: readonly Predicate<NoInfer<T>>[]): Predicate<T>;
export function or<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T>;
export function or<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (delta) => predicates.some((predicate) => predicate(delta));
}
