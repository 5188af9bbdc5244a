import { isDeepStrictEqual } from 'node:util';
import { type Kind, requireKeyInScope } from '../kind/kind.ts';
import type { KubeObject, ObjectKey } from '../kind/object.ts';
import { isReadable } from '../kind/unreadable-object.ts';
import { type IndexFunction, ObjectIndex } from './object-index.ts';

/** A change of an object in the store. */
export type Delta<T extends KubeObject> =
  | { readonly type: 'added'; readonly object: T }
  | { readonly type: 'modified'; readonly object: T; readonly previous: T }
  /** `object` is the last known state: from the DELETED event, or from the store if the event was missed. */
  | { readonly type: 'deleted'; readonly object: T };

/**
 * A read-only view of the store. Objects are shared: do not change them. Methods that find several objects return a
 * snapshot, so a reconcile may create objects while it iterates.
 */
export interface ReadonlyStore<T extends KubeObject> {
  /** Undefined if the store was created without a kind. */
  readonly kind: Kind<T> | undefined;
  readonly size: number;
  /** @throws TypeError if the key does not fit the kind's scope. */
  get(key: ObjectKey): T | undefined;
  list(): readonly T[];
  /** The objects of one namespace. Cluster-scoped objects are in `''`. */
  byNamespace(namespace: string): readonly T[];
  /** The objects with an owner reference to this uid. The first call builds the index. */
  byOwner(uid: string): Iterable<T>;
  /**
   * The objects of all namespaces for which the index has this value. To find the objects of one namespace, put the
   * namespace into the value, for example with `keyString`.
   *
   * @throws RangeError if no index has that name.
   */
  byIndex(index: string, value: string): Iterable<T>;
}

/** Options of {@link Store.replace}. */
export interface ReplaceOptions {
  /** The list covers only this namespace. Default: all namespaces. */
  readonly namespace?: string;
  /**
   * Whether equal resourceVersions imply equal objects. False after the server was restored from a backup: it then
   * assigns the same versions to other content. Default true.
   */
  readonly trustVersions?: boolean;
}

/** Options of a {@link Store}. */
export interface StoreOptions<T extends KubeObject> {
  /**
   * The kind of the objects. Default: unknown, so that neither {@link Store.get} nor the applier checks the scope of
   * keys.
   */
  readonly kind?: Kind<T>;
  /** Called when an index function throws. The index then does not find the object. */
  readonly indexFailed?: (error: unknown, object: T, index: string) => void;
}

/**
 * A kind's objects by namespace and name, with indexes. A change returns its delta, or undefined if nothing changed.
 */
export class Store<T extends KubeObject> implements ReadonlyStore<T> {
  readonly kind: Kind<T> | undefined;
  /** By namespace, then by name. The keys are the objects' own strings, so they take no extra memory. */
  readonly #namespaces = new Map<string, Map<string, T>>();
  readonly #indexes = new Map<string, ObjectIndex<T>>();
  readonly #indexFailed: (error: unknown, object: T, index: string) => void;
  #owners: ObjectIndex<T> | undefined;
  #size = 0;
  #unreadable = 0;

  constructor({ kind, indexFailed = () => {} }: StoreOptions<T> = {}) {
    this.kind = kind;
    this.#indexFailed = indexFailed;
  }

  get size(): number {
    return this.#size;
  }

  /** The number of objects of which a member cannot be read. */
  get unreadable(): number {
    return this.#unreadable;
  }

  get(key: ObjectKey): T | undefined {
    const { namespace = '', name } = key;
    const object = this.#namespaces.get(namespace)?.get(name);
    // Check the scope only when nothing was found: a key that finds an object is valid, and the check costs time.
    if (object === undefined && this.kind !== undefined) requireKeyInScope(this.kind, key);
    return object;
  }

  list(): readonly T[] {
    const all: T[] = [];
    for (const objects of this.#namespaces.values()) for (const object of objects.values()) all.push(object);
    return all;
  }

  byNamespace(namespace: string): readonly T[] {
    return [...(this.#namespaces.get(namespace)?.values() ?? [])];
  }

  byOwner(uid: string): Iterable<T> {
    this.#owners ??= this.#index('owner', ownersOf);
    return this.#owners.find(uid);
  }

  byIndex(index: string, value: string): Iterable<T> {
    const found = this.#indexes.get(index);
    if (found === undefined)
      throw new RangeError(`there is no index "${index}"; the indexes are: ${[...this.#indexes.keys()].join(', ')}`);
    return found.find(value);
  }

  /**
   * Adds an index over present and future objects.
   *
   * @throws RangeError if the name is taken.
   */
  addIndex(name: string, values: IndexFunction<T>): void {
    if (this.#indexes.has(name))
      throw new RangeError(`index "${name}" already exists: choose another name, or add it only once`);
    this.#indexes.set(name, this.#index(name, values));
  }

  set(object: T): Delta<T> | undefined {
    const previous = this.get(object.metadata);
    if (previous?.metadata.resourceVersion === object.metadata.resourceVersion) return undefined;
    return this.#put(object, previous);
  }

  delete(object: T): Delta<T> | undefined {
    const { namespace = '', name } = object.metadata;
    const objects = this.#namespaces.get(namespace);
    const previous = objects?.get(name);
    if (objects === undefined || previous === undefined) return undefined;
    objects.delete(name);
    if (objects.size === 0) this.#namespaces.delete(namespace);
    this.#size -= 1;
    this.#reindex(previous, undefined);
    return { type: 'deleted', object };
  }

  /**
   * Replaces the content by these objects. An object that was deleted and recreated between two lists yields both
   * deltas, so that no handler mistakes the new object for the old one.
   */
  replace(objects: readonly T[], options: ReplaceOptions = {}): readonly Delta<T>[] {
    const { namespace, trustVersions = true } = options;
    const deltas: Delta<T>[] = [];
    const push = (delta: Delta<T> | undefined): void => {
      if (delta !== undefined) deltas.push(delta);
    };
    const listed = new Set<T>();
    for (const object of objects) {
      let previous = this.get(object.metadata);
      if (previous !== undefined && previous.metadata.uid !== object.metadata.uid) {
        push(this.delete(previous));
        previous = undefined;
      }
      if (previous !== undefined && (trustVersions ? isSameVersion(previous, object) : isEqual(previous, object))) {
        listed.add(previous);
      } else {
        listed.add(object);
        push(this.#put(object, previous));
      }
    }
    for (const object of namespace === undefined ? this.list() : this.byNamespace(namespace)) {
      if (!listed.has(object)) push(this.delete(object));
    }
    return deltas;
  }

  #put(object: T, previous: T | undefined): Delta<T> {
    const { namespace = '', name } = object.metadata;
    const objects = this.#namespaces.get(namespace);
    if (objects === undefined) this.#namespaces.set(namespace, new Map([[name, object]]));
    else objects.set(name, object);
    this.#reindex(previous, object);
    if (previous !== undefined) return { type: 'modified', object, previous };
    this.#size += 1;
    return { type: 'added', object };
  }

  #reindex(previous: T | undefined, next: T | undefined): void {
    if (previous !== undefined && !isReadable(previous)) this.#unreadable -= 1;
    if (next !== undefined && !isReadable(next)) this.#unreadable += 1;
    for (const index of this.#indexes.values()) move(index, previous, next);
    if (this.#owners !== undefined) move(this.#owners, previous, next);
  }

  #index(name: string, values: IndexFunction<T>): ObjectIndex<T> {
    const index = new ObjectIndex<T>(values, (error, object) => this.#indexFailed(error, object, name));
    for (const object of this.list()) index.add(object);
    return index;
  }
}

function move<T extends KubeObject>(index: ObjectIndex<T>, previous: T | undefined, next: T | undefined): void {
  if (previous !== undefined) index.remove(previous);
  if (next !== undefined) index.add(next);
}

/** An object with unreadable members cannot be compared, so it equals only itself. */
const isEqual = (a: KubeObject, b: KubeObject): boolean =>
  a === b || (isReadable(a) && isReadable(b) && isDeepStrictEqual(a, b));

const isSameVersion = (a: KubeObject, b: KubeObject): boolean =>
  a.metadata.resourceVersion === b.metadata.resourceVersion;

const none: readonly string[] = [];

function ownersOf({ metadata }: KubeObject): readonly string[] {
  return metadata.ownerReferences?.map(({ uid }) => uid) ?? none;
}
