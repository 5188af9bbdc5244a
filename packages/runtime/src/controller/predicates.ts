import { isDeepStrictEqual } from 'node:util';
import { conditionsIn } from '../kind/condition.ts';
import type { KubeObject } from '../kind/object.ts';
import type { ReportingObject } from './outcome.ts';
import type { Predicate } from './predicate.ts';

// Published as `predicates`. A predicate whose name ends in `Changed` filters `modified` only: `added` and `deleted`
// pass, because there is nothing to compare. Deleting and recreating an object yields two deltas.

/**
 * True if `metadata.generation` changed. The API server raises it when the spec changes, and when an object that has
 * finalizers is deleted, but not for the status, labels, annotations or other metadata. True for every delta of a kind
 * that has no generation.
 */
export const generationChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  delta.object.metadata.generation === undefined ||
  delta.object.metadata.generation !== delta.previous.metadata.generation;

/** True if a label was added, changed or removed. */
export const labelsChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  !isDeepStrictEqual(delta.previous.metadata.labels ?? {}, delta.object.metadata.labels ?? {});

/** True if an annotation was added, changed or removed. */
export const annotationsChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  !isDeepStrictEqual(delta.previous.metadata.annotations ?? {}, delta.object.metadata.annotations ?? {});

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

// The first signature of `and` and `or` infers the object's type from the context: otherwise an untyped function beside
// `generationChanged` would get a KubeObject. The second infers it from the predicates.

/** True if all predicates return true. */
export function and<T extends KubeObject>(...predicates: readonly Predicate<NoInfer<T>>[]): Predicate<T>;
export function and<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T>;
export function and<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (delta) => predicates.every((predicate) => predicate(delta));
}

/**
 * True if any predicate returns true.
 *
 * @example predicates.or(predicates.generationChanged, predicates.annotationsChanged)
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

/** True if the predicate returns false. `not(generationChanged)` is false for `added` and `deleted`. */
export function not<T extends KubeObject>(predicate: Predicate<T>): Predicate<T> {
  return (delta) => !predicate(delta);
}
