import { type Kind, keyOf, keyString, type ObjectKey } from '@echoperator/runtime';
import { versionedResource } from '@echoperator/runtime/internal';
import type { StoredObject } from './strategy.ts';

/** One write to the simulated etcd. */
export interface Change {
  readonly revision: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** The object with the version of the change. For a deletion, its last state. */
  readonly object: StoredObject;
  /** The previous state. Undefined for a creation. */
  readonly before: StoredObject | undefined;
  /** The client that made the change: `operator-1`, `user`. Undefined: the cluster itself. */
  readonly by: string | undefined;
}

/** A request makes fewer changes than fit between two whole revisions. A power of two adds up without an error. */
const fraction = 2 ** -16;

/**
 * The only state of the simulated API server: a log of changes with one counter. The current objects are derived from
 * the log.
 */
export class ChangeLog {
  /** By resource, in their order. */
  readonly #changes = new Map<string, Change[]>();
  /** By resource, then by `namespace/name`. */
  readonly #current = new Map<string, Map<string, StoredObject>>();
  /** The resource of each change. */
  readonly #order: string[] = [];
  /** As in etcd, the first write has revision 2. */
  #revision = 1;
  #compactedRevision = 0;

  get revision(): number {
    return this.#revision;
  }

  /** Changes up to this revision are gone. */
  get compactedRevision(): number {
    return this.#compactedRevision;
  }

  get(kind: Kind, key: ObjectKey): StoredObject | undefined {
    return this.#current.get(versionedResource(kind))?.get(keyString(key));
  }

  /** The current objects of a kind, by namespace and name. */
  list(kind: Kind): readonly StoredObject[] {
    return sorted(this.#current.get(versionedResource(kind)) ?? new Map());
  }

  /** The objects of a kind as of an earlier revision. */
  listAt(kind: Kind, revision: number): readonly StoredObject[] {
    if (revision >= this.#revision) return this.list(kind);
    const objects = new Map<string, StoredObject>();
    for (const change of this.#changes.get(versionedResource(kind)) ?? []) {
      if (change.revision > revision) break;
      put(objects, change);
    }
    return sorted(objects);
  }

  /** All changes of a kind, in order, including changes that watches can no longer get. */
  changes(kind: Kind): readonly Change[] {
    return this.#changes.get(versionedResource(kind)) ?? [];
  }

  /** All current objects. */
  *all(): Iterable<StoredObject> {
    for (const objects of this.#current.values()) yield* objects.values();
  }

  /** The first change of a kind after a revision. */
  next(kind: Kind, revision: number): Change | undefined {
    const changes = this.#changes.get(versionedResource(kind)) ?? [];
    // Search from the end, because watches are rarely far behind.
    let index = changes.length;
    while (index > 0 && (changes[index - 1]?.revision ?? 0) > revision) index -= 1;
    return changes[index];
  }

  /** Stores an object under a new version and returns it. */
  put(kind: Kind, object: StoredObject, by: string | undefined): StoredObject {
    return this.#append(versionedResource(kind), object, by, false);
  }

  /** Removes an object and returns its last state, which has the version of the deletion. */
  remove(kind: Kind, object: StoredObject, by: string | undefined): StoredObject {
    return this.#append(versionedResource(kind), object, by, true);
  }

  /** Forgets all changes, so that a watch from an earlier version fails with 410, as after a compaction of etcd. */
  compact(): void {
    this.#compactedRevision = this.#revision;
  }

  /** The number of changes. */
  get length(): number {
    return this.#order.length;
  }

  /** Undoes all changes after the first `length` ones, and returns them with their resources, in order. */
  rewind(length: number): readonly (readonly [resource: string, Change])[] {
    const undone: [string, Change][] = [];
    while (this.#order.length > length) {
      const resource = this.#order.pop() ?? '';
      const change = this.#changes.get(resource)?.pop();
      if (change === undefined) break;
      const { object, before, revision } = change;
      const objects = this.#current.get(resource);
      if (before === undefined) objects?.delete(keyString(keyOf(object)));
      else objects?.set(keyString(keyOf(object)), before);
      this.#revision = revision - 1;
      undone.unshift([resource, change]);
    }
    return undone;
  }

  /**
   * Gives the changes after the first `length` ones the revisions of another API server. A removal has the revision in
   * `removals`, by uid. Every other change has a fraction between the last whole revision and the next one, which the
   * other server has not used: so no revision is ahead of that server's next write.
   */
  renumber(length: number, removals: ReadonlyMap<string, number>): void {
    for (const [resource, { object, by, type }] of this.rewind(length)) {
      const removal = type === 'DELETED' ? removals.get(object.metadata.uid ?? '') : undefined;
      // The other server may have removed the object earlier, by a request that is not simulated.
      const isAhead = removal !== undefined && removal > this.#revision;
      this.#append(resource, object, by, type === 'DELETED', isAhead ? removal : this.#revision + fraction);
    }
  }

  /** Takes over the revision of another API server, unless a change has a later one. */
  advanceTo(revision: number): void {
    this.#revision = Math.max(this.#revision, revision);
  }

  /** Makes the next change have this revision. */
  continueAt(revision: number): void {
    this.#revision = revision - 1;
  }

  #append(
    resource: string,
    object: StoredObject,
    by: string | undefined,
    isRemoval: boolean,
    revision = this.#revision + 1,
  ): StoredObject {
    const before = this.#current.get(resource)?.get(keyString(keyOf(object)));
    this.#revision = revision;
    const versioned = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#revision) } };
    const type = isRemoval ? 'DELETED' : before === undefined ? 'ADDED' : 'MODIFIED';
    const change: Change = { revision: this.#revision, type, object: versioned, before, by };
    const changes = this.#changes.get(resource) ?? [];
    this.#changes.set(resource, changes);
    changes.push(change);
    this.#order.push(resource);
    const objects = this.#current.get(resource) ?? new Map<string, StoredObject>();
    this.#current.set(resource, objects);
    put(objects, change);
    return versioned;
  }
}

function put(objects: Map<string, StoredObject>, { type, object }: Change): void {
  const key = keyString(keyOf(object));
  if (type === 'DELETED') objects.delete(key);
  else objects.set(key, object);
}

/** Compares in the order of etcd's keys. */
const sorted = (objects: ReadonlyMap<string, StoredObject>): readonly StoredObject[] =>
  [...objects].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
