import type { Informer } from '../cache/informer.ts';
import type { IndexFunction } from '../cache/object-index.ts';
import type { ReadonlyStore } from '../cache/store.ts';
import type { Kind } from '../kind/kind.ts';
import { type KubeObject, keyString, type ObjectKey } from '../kind/object.ts';

/** What the dry runs of a reconcile have shown of a kind's objects, by `keyString`. Undefined: the object is gone. */
export type ShownObjects = ReadonlyMap<string, KubeObject | undefined>;

/**
 * A view of a cache that shows each reconcile of a plan the results of its own dry runs, and no other reconcile.
 */
export class PlannedStore<T extends KubeObject> implements ReadonlyStore<T> {
  readonly kind: Kind<T> | undefined;
  readonly #base: ReadonlyStore<T>;
  readonly #shown: () => ShownObjects | undefined;
  readonly #asStored: Informer<T>['asStored'];
  readonly #indexes: ReadonlyMap<string, IndexFunction<T>>;
  readonly #hasRead: (object: T) => void;
  /** Keeps the identity of an object that is read several times. */
  readonly #stored = new WeakMap<KubeObject, T>();

  /**
   * @param options.base the cache.
   * @param options.shown returns the results of the reconcile that reads the store; undefined outside a reconcile.
   * @param options.indexes the indexes of the cache.
   * @param options.hasRead is called with each object that the store returns.
   */
  constructor(options: {
    readonly base: ReadonlyStore<T>;
    readonly shown: () => ShownObjects | undefined;
    readonly asStored: Informer<T>['asStored'];
    readonly indexes: ReadonlyMap<string, IndexFunction<T>>;
    readonly hasRead: (object: T) => void;
  }) {
    this.kind = options.base.kind;
    this.#base = options.base;
    this.#shown = options.shown;
    this.#asStored = options.asStored;
    this.#indexes = options.indexes;
    this.#hasRead = options.hasRead;
  }

  get size(): number {
    return this.#shown() === undefined ? this.#base.size : this.list().length;
  }

  get(key: ObjectKey): T | undefined {
    const shown = this.#shown();
    const id = keyString(key);
    const object = shown?.has(id) ? this.#storedOf(shown.get(id)) : this.#base.get(key);
    if (object !== undefined) this.#hasRead(object);
    return object;
  }

  list(): readonly T[] {
    return this.#merged(this.#base.list(), () => true);
  }

  byNamespace(namespace: string): readonly T[] {
    return this.#merged(this.#base.byNamespace(namespace), ({ metadata }) => (metadata.namespace ?? '') === namespace);
  }

  byOwner(uid: string): Iterable<T> {
    const isOwned = ({ metadata }: T): boolean => metadata.ownerReferences?.some((owner) => owner.uid === uid) === true;
    return this.#merged(this.#base.byOwner(uid), isOwned);
  }

  byIndex(index: string, value: string): Iterable<T> {
    const values = this.#indexes.get(index);
    return this.#merged(this.#base.byIndex(index, value), (object) => values?.(object).includes(value) === true);
  }

  #merged(found: Iterable<T>, matches: (object: T) => boolean): readonly T[] {
    const objects = this.#withShown(found, matches);
    for (const object of objects) this.#hasRead(object);
    return objects;
  }

  #withShown(found: Iterable<T>, matches: (object: T) => boolean): readonly T[] {
    const shown = this.#shown();
    if (shown === undefined || shown.size === 0) return [...found];
    const others = [...found].filter(({ metadata }) => !shown.has(keyString(metadata)));
    const own = [...shown.values()].map((object) => this.#storedOf(object)).filter((object) => object !== undefined);
    return [...others, ...own.filter(matches)];
  }

  #storedOf(object: KubeObject | undefined): T | undefined {
    if (object === undefined) return undefined;
    const known = this.#stored.get(object);
    // The caller looked the object up by this kind.
    const stored = known ?? this.#asStored(object as T);
    if (known === undefined) this.#stored.set(object, stored);
    return stored;
  }
}
