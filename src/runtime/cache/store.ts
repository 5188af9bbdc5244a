import { type KubeObject, keyOf, keyString, type ObjectKey } from '../kind/index.ts';

/** What happened to an object, as the store saw it. */
export type Delta<T extends KubeObject> =
  | { readonly type: 'added'; readonly object: T }
  | { readonly type: 'modified'; readonly object: T; readonly previous: T }
  /** `object` is the last state known: the server's last word, or what the store held if the event was missed. */
  | { readonly type: 'deleted'; readonly object: T };

/** Maps an object to the values under which an index finds it. */
export type IndexFunction<T extends KubeObject> = (object: T) => readonly string[];

/** The store's content, for those who only look. Objects are shared: nobody may change them. */
export interface ReadonlyStore<T extends KubeObject> {
  readonly size: number;
  get(key: ObjectKey): T | undefined;
  list(): Iterable<T>;
  /** @throws RangeError if no index has that name. */
  byIndex(index: string, value: string): Iterable<T>;
}

/** A kind's objects by key, with indexes. Every change returns its delta, nothing where there was none. */
export class Store<T extends KubeObject> implements ReadonlyStore<T> {
  readonly #objects = new Map<string, T>();
  readonly #indexes = new Map<
    string,
    { readonly values: IndexFunction<T>; readonly entries: Map<string, Map<string, T>> }
  >();

  get size(): number {
    return this.#objects.size;
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(keyString(key));
  }

  list(): Iterable<T> {
    return this.#objects.values();
  }

  byIndex(index: string, value: string): Iterable<T> {
    const found = this.#indexes.get(index);
    if (found === undefined)
      throw new RangeError(`no index "${index}": there are ${[...this.#indexes.keys()].join(', ')}`);
    return found.entries.get(value)?.values() ?? [];
  }

  /**
   * Adds an index; what is stored already is indexed too.
   *
   * @throws RangeError if the name is taken.
   */
  addIndex(name: string, values: IndexFunction<T>): void {
    if (this.#indexes.has(name)) throw new RangeError(`there is an index "${name}" already`);
    this.#indexes.set(name, { values, entries: new Map() });
    for (const [key, object] of this.#objects) this.#reindex(key, undefined, object);
  }

  set(object: T): Delta<T> | undefined {
    const key = keyString(keyOf(object));
    const previous = this.#objects.get(key);
    if (previous?.metadata.resourceVersion === object.metadata.resourceVersion) return undefined;
    this.#objects.set(key, object);
    this.#reindex(key, previous, object);
    return previous === undefined ? { type: 'added', object } : { type: 'modified', object, previous };
  }

  delete(object: T): Delta<T> | undefined {
    const key = keyString(keyOf(object));
    const previous = this.#objects.get(key);
    if (previous === undefined) return undefined;
    this.#objects.delete(key);
    this.#reindex(key, previous, undefined);
    return { type: 'deleted', object };
  }

  /**
   * Makes the store hold just these objects. An object deleted and made again under its name between two lists gives
   * both deltas, so that nobody mistakes the new one for the old.
   */
  replace(objects: readonly T[]): readonly Delta<T>[] {
    const gone = new Map(this.#objects);
    const deltas: (Delta<T> | undefined)[] = [];
    for (const object of objects) {
      const key = keyString(keyOf(object));
      const previous = gone.get(key);
      gone.delete(key);
      if (previous !== undefined && previous.metadata.uid !== object.metadata.uid) deltas.push(this.delete(previous));
      deltas.push(this.set(object));
    }
    for (const object of gone.values()) deltas.push(this.delete(object));
    return deltas.filter((delta) => delta !== undefined);
  }

  #reindex(key: string, previous: T | undefined, next: T | undefined): void {
    for (const { values, entries } of this.#indexes.values()) {
      for (const value of previous === undefined ? [] : values(previous)) {
        const entry = entries.get(value);
        entry?.delete(key);
        if (entry?.size === 0) entries.delete(value);
      }
      for (const value of next === undefined ? [] : values(next)) {
        const entry = entries.get(value);
        if (entry === undefined) entries.set(value, new Map([[key, next as T]]));
        else entry.set(key, next as T);
      }
    }
  }
}
