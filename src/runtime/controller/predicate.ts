import type { Delta } from '../cache/store.ts';
import type { KubeObject } from '../kind/object.ts';

/** Decides whether a delta matters to a controller. Must be synchronous and pure, and must not throw. */
export type Predicate<T extends KubeObject> = (delta: Delta<T>) => boolean;
