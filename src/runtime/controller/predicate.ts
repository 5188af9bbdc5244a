import { isDeepStrictEqual } from 'node:util';
import type { Delta } from '../cache/index.ts';
import type { KubeObject } from '../kind/index.ts';
import type { ReportingObject } from './outcome.ts';

/**
 * Whether a change should cause a reconcile. Synchronous; must not throw or write.
 *
 * Predicates whose name ends in `Changed` compare modifications. They return true for `added` and `deleted`.
 */
export type Predicate<T extends KubeObject> = (delta: Delta<T>) => boolean;

/**
 * True if `metadata.generation` changed. The API server increments it when the spec changes and when the deletion of an
 * object with finalizers is requested, but not when the status, labels or other metadata change. For kinds without a
 * generation, every modification returns true.
 */
export const generationChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  delta.object.metadata.generation === undefined ||
  delta.object.metadata.generation !== delta.previous.metadata.generation ||
  isOtherObject(delta);

/** True if a label was added, changed or removed. */
export const labelsChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  !isDeepStrictEqual(delta.previous.metadata.labels ?? {}, delta.object.metadata.labels ?? {});

/** True if an annotation was added, changed or removed. */
export const annotationsChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  !isDeepStrictEqual(delta.previous.metadata.annotations ?? {}, delta.object.metadata.annotations ?? {});

/** True if anything changed. */
export const resourceVersionChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' || delta.previous.metadata.resourceVersion !== delta.object.metadata.resourceVersion;

/**
 * True if anything but the messages of the conditions changed. Without it, a refusal with a new message each time (a policy
 * may quote the clock) would be retried immediately, without backoff: the controller writes the message itself.
 */
export const ignoringConditionMessages: Predicate<ReportingObject> = (delta) =>
  delta.type !== 'modified' || !isDeepStrictEqual(withoutMessages(delta.previous), withoutMessages(delta.object));

function withoutMessages({ metadata, status, ...rest }: ReportingObject): object {
  const { resourceVersion: _, ...lasting } = metadata;
  const conditions = status?.conditions?.map(({ message: _message, ...condition }) => condition);
  return { ...rest, metadata: lasting, status: { ...status, conditions } };
}

/** True if the object was deleted or its deletion was requested, also if it is added with a deletionTimestamp. */
export const deletion: Predicate<KubeObject> = (delta) =>
  delta.type === 'deleted' ||
  (delta.object.metadata.deletionTimestamp !== undefined &&
    (delta.type === 'added' || delta.previous.metadata.deletionTimestamp === undefined));

/** True if all predicates return true. */
export function and<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (delta) => predicates.every((predicate) => predicate(delta));
}

/**
 * True if any predicate returns true.
 *
 * @example or(generationChanged, annotationsChanged)
 */
export function or<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (delta) => predicates.some((predicate) => predicate(delta));
}

/** Negates a predicate. `not(generationChanged)` is false for `added` and `deleted`. */
export function not<T extends KubeObject>(predicate: Predicate<T>): Predicate<T> {
  return (delta) => !predicate(delta);
}

/** The object was deleted and recreated under its name, and both events were observed as one modification. */
const isOtherObject = (delta: { readonly object: KubeObject; readonly previous: KubeObject }): boolean =>
  delta.object.metadata.uid !== delta.previous.metadata.uid;
