import type { Delta } from '../cache/store.ts';
import type { KubeObject } from '../kind/object.ts';
import { isReadable } from '../kind/unreadable-object.ts';

/** Decides whether a delta matters to a controller. Must be synchronous and pure, and must not throw. */
export type Predicate<T extends KubeObject> = (delta: Delta<T>) => boolean;

/**
 * Whether the delta passes the predicate. A delta of an object with unreadable members passes, because the predicate
 * could not compare it.
 */
export const passes = <T extends KubeObject>(predicate: Predicate<T> | undefined, delta: Delta<T>): boolean =>
  predicate === undefined || !isReadableDelta(delta) || predicate(delta);

/** Whether every member of the object, and of its previous state, can be read. */
export const isReadableDelta = (delta: Delta<KubeObject>): boolean =>
  isReadable(delta.object) && (delta.type !== 'modified' || isReadable(delta.previous));
