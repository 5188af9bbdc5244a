import { isDeepStrictEqual } from 'node:util';
import type { Delta } from '../cache/index.ts';
import type { KubeObject } from '../kind/index.ts';
import type { ReportingObject } from './outcome.ts';

/**
 * Whether a change can matter to a reconcile. Must not throw, wait or write.
 *
 * Those whose name ends in `Changed` look at modifications: what comes and what goes passes, for there is nothing to
 * compare it with.
 */
export type Predicate<T extends KubeObject> = (delta: Delta<T>) => boolean;

/**
 * The desired state has changed: `metadata.generation`, which the API server raises with the spec and when the
 * deletion of an object that waits for finalizers is asked for, but neither with the status nor with labels,
 * annotations and other metadata. For kinds that do not count generations every modification passes.
 */
export const generationChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  delta.object.metadata.generation === undefined ||
  delta.object.metadata.generation !== delta.previous.metadata.generation ||
  isOtherObject(delta);

/** A label has come, changed or gone. */
export const labelsChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  !isDeepStrictEqual(delta.previous.metadata.labels ?? {}, delta.object.metadata.labels ?? {});

/** An annotation has come, changed or gone. */
export const annotationsChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' ||
  !isDeepStrictEqual(delta.previous.metadata.annotations ?? {}, delta.object.metadata.annotations ?? {});

/** Anything has changed at all. */
export const resourceVersionChanged: Predicate<KubeObject> = (delta) =>
  delta.type !== 'modified' || delta.previous.metadata.resourceVersion !== delta.object.metadata.resourceVersion;

/**
 * Anything has changed but the messages of the conditions. A controller writes those itself: if it passed its own new message,
 * a refusal that is worded differently each time (a policy may quote the clock) would be retried at once, without back-off.
 */
export const ignoringConditionMessages: Predicate<ReportingObject> = (delta) =>
  delta.type !== 'modified' || !isDeepStrictEqual(withoutMessages(delta.previous), withoutMessages(delta.object));

function withoutMessages({ metadata, status, ...rest }: ReportingObject): object {
  const { resourceVersion: _, ...lasting } = metadata;
  const conditions = status?.conditions?.map(({ message: _message, ...condition }) => condition);
  return { ...rest, metadata: lasting, status: { ...status, conditions } };
}

/** The object is gone, or its deletion has been asked for: also one that comes with a deletionTimestamp. */
export const deletion: Predicate<KubeObject> = (delta) =>
  delta.type === 'deleted' ||
  (delta.object.metadata.deletionTimestamp !== undefined &&
    (delta.type === 'added' || delta.previous.metadata.deletionTimestamp === undefined));

/** Passes what all of them pass. */
export function and<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (delta) => predicates.every((predicate) => predicate(delta));
}

/**
 * Passes what one of them passes.
 *
 * @example or(generationChanged, annotationsChanged)
 */
export function or<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (delta) => predicates.some((predicate) => predicate(delta));
}

/** Passes what it does not pass: `not(generationChanged)` passes neither what comes nor what goes. */
export function not<T extends KubeObject>(predicate: Predicate<T>): Predicate<T> {
  return (delta) => !predicate(delta);
}

/** Under one name, but made anew: two deletions and creations may look like one change. */
const isOtherObject = (delta: { readonly object: KubeObject; readonly previous: KubeObject }): boolean =>
  delta.object.metadata.uid !== delta.previous.metadata.uid;
