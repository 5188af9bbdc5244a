import type { WatchEvent } from '../client/client.ts';
import { type KubeObject, keyOf, keyString, type ObjectKey } from '../kind/object.ts';
import { compareResourceVersions, isComparable } from './resource-version.ts';
import type { Delta, Store } from './store.ts';

/** What a response showed of one name. The entry exists until the watch has passed the response. */
interface Entry {
  /**
   * `shown`: the store shows the object. `outside`: the object is outside the selection at this version, so the store
   * shows no older version. `gone`: a tombstone for the object with this uid; `version` is its last known version.
   */
  readonly state: 'shown' | 'outside' | 'gone';
  readonly key: ObjectKey;
  readonly uid: string;
  readonly version: string;
  readonly sinceMs: number;
  /** Whether the watch has delivered the object, so that it will also deliver the object's deletion. */
  isDelivered: boolean;
}

/** What the store held of an object when a request about it was sent. */
export interface RequestSnapshot {
  /**
   * The cache's epoch. It changes when resourceVersions start again (etcd was restored) and when the informer stops.
   */
  readonly epoch: number;
  /** How many lists the cache had received. */
  readonly lists: number;
  readonly uid: string | undefined;
}

/**
 * Makes a store show the objects of responses until the watch has passed them. There is one overlay per watch.
 *
 * **Guarantees**
 * - When {@link show} or {@link hide} returns, the store shows what the response showed, or something newer. This
 *   includes deletions.
 * - No object goes back to an older version, and no deleted object comes back. Applying the deltas in order yields
 *   exactly the store.
 * - The store converges to the API server. An entry ends with the event that delivers its object. It also ends with an
 *   event or a bookmark that passes its version without that event, because the object has left the selection or is
 *   gone. A list that began after the response ends it too.
 *
 * **Assumptions**
 * - The resourceVersions of a resource are comparable (KEP-5504). Responses with other versions are ignored, so the
 *   store shows only what the watch delivers.
 * - The caller passes a response together with what {@link beforeRequest} returned before that request was sent.
 *
 * **Caveats**
 * - Changes by other clients still arrive with the watch. Only the objects of our responses are ahead of the watch.
 * - While a kind cannot be watched, its responses stay shown and its tombstones are kept.
 * - An object that leaves the selection, comes back and then is deleted is shown once more, until the watch delivers
 *   the deletion.
 */
export class Overlay<T extends KubeObject> {
  readonly #store: Store<T>;
  readonly #namespace: string | undefined;
  readonly #covers: (object: T) => boolean;
  /** By `keyString`. A newer response replaces an older one, even if it is about another object of that name. */
  readonly #entries = new Map<string, Entry>();
  /** The watch, or the list before it, has delivered everything up to this version. Undefined before the first list. */
  #reached: string | undefined;
  #epoch = 0;
  #lists = 0;

  /**
   * @param namespace the only namespace that the watch covers; undefined for all
   * @param covers whether an object is in the selection of the watch
   */
  constructor(store: Store<T>, namespace: string | undefined, covers: (object: T) => boolean) {
    this.#store = store;
    this.#namespace = namespace;
    this.#covers = covers;
  }

  get size(): number {
    return this.#entries.size;
  }

  /**
   * The oldest entry that waits for an event. An entry waits if its object is in the selection, or if it is a tombstone
   * of an object that the watch has delivered.
   */
  get oldestWaiting(): Readonly<Entry> | undefined {
    let oldest: Entry | undefined;
    for (const entry of this.#entries.values()) {
      const isWaiting = entry.state === 'shown' || (entry.state === 'gone' && entry.isDelivered);
      if (isWaiting && !(oldest !== undefined && oldest.sinceMs <= entry.sinceMs)) oldest = entry;
    }
    return oldest;
  }

  /** Whether the watch has delivered everything up to this version. */
  hasReached(version: string): boolean {
    return this.#reached !== undefined && compareResourceVersions(this.#reached, version) >= 0;
  }

  /** Call this before a request about an object is sent. */
  beforeRequest(key: ObjectKey): RequestSnapshot {
    return { epoch: this.#epoch, lists: this.#lists, uid: this.#store.get(key)?.metadata.uid };
  }

  /** Makes later calls ignore the responses to requests that were sent before this call. */
  ignoreResponses(): void {
    this.#epoch += 1;
  }

  /**
   * Shows the object of a response.
   *
   * @param prepare returns the copy that the store keeps. Not called for a response that is ignored.
   */
  show(object: T, { epoch }: RequestSnapshot, nowMs: number, prepare: (object: T) => T): readonly Delta<T>[] {
    const { uid, resourceVersion: version } = object.metadata;
    if (epoch !== this.#epoch || !this.#isComparable(version) || this.hasReached(version)) return none;
    const known = this.#entries.get(keyString(object.metadata));
    const isOlder = known !== undefined && compareResourceVersions(version, known.version) <= 0;
    if (isOlder || (known?.state === 'gone' && known.uid === uid)) return none;
    const held = this.#store.get(object.metadata);
    const isShown = this.#covers(object);
    const isDelivered = held?.metadata.uid === uid && (known?.state !== 'shown' || known.isDelivered);
    const state = isShown ? 'shown' : 'outside';
    this.#set({ state, key: keyOf(object), uid, version, sinceMs: nowMs, isDelivered });
    if (isShown) return this.#put(prepare(object));
    return held === undefined ? none : this.#delete(held);
  }

  /**
   * Whether a list since the request may have hidden what happened to the object of a response. This is so if the list
   * has overtaken the response, and the store holds neither the object nor a newer version. It is also so if the
   * response was ignored because versions started again. If only watch events have overtaken the response, the handlers
   * have received them.
   */
  isOvertaken(object: T, { epoch, lists }: RequestSnapshot): boolean {
    const { uid, resourceVersion: version } = object.metadata;
    if (!this.#isComparable(version) || !this.#covers(object)) return false;
    if (epoch !== this.#epoch) return true;
    if (lists === this.#lists || !this.hasReached(version)) return false;
    const held = this.#store.get(object.metadata)?.metadata;
    return held?.uid !== uid || compareResourceVersions(held.resourceVersion, version) < 0;
  }

  /** Hides the object with this uid: a response has shown that it is gone. */
  hide(key: ObjectKey, uid: string, { epoch }: RequestSnapshot, nowMs: number): readonly Delta<T>[] {
    const held = this.#store.get(key);
    // Either the watch has already delivered the deletion, or the object is not in the selection.
    if (epoch !== this.#epoch || held === undefined || held.metadata.uid !== uid) return none;
    const { resourceVersion: version } = held.metadata;
    if (!this.#isComparable(version)) return none;
    const known = this.#entries.get(keyString(key));
    const isDelivered = known?.state !== 'shown' || known.isDelivered;
    this.#set({ state: 'gone', key: keyOf(held), uid, version, sinceMs: nowMs, isDelivered });
    return this.#delete(held);
  }

  /** Applies an event of the watch. Call {@link settle} after the last event of a batch. */
  observe(event: WatchEvent<T>): readonly Delta<T>[] {
    this.#reached = event.object.metadata.resourceVersion;
    return event.type === 'BOOKMARK' || this.#isOverlaid(event) ? none : this.#take(event);
  }

  /** Ends the entries that the watch has passed without an event. Their objects are not in the selection. */
  settle(): readonly Delta<T>[] {
    const deltas: Delta<T>[] = [];
    for (const entry of this.#entries.values()) {
      if (!this.hasReached(entry.version) || (entry.state === 'gone' && entry.isDelivered)) continue;
      this.#end(entry);
      const held = entry.state === 'shown' ? this.#store.get(entry.key) : undefined;
      if (held !== undefined) deltas.push(...this.#delete(held));
    }
    return deltas;
  }

  /**
   * Applies a complete list.
   *
   * @param startedAtMs when the list was requested. It contains every write made before that.
   */
  replace(objects: readonly T[], version: string, startedAtMs: number): readonly Delta<T>[] {
    const isRestored = this.#isRestored(version, startedAtMs);
    if (isRestored) {
      this.#epoch += 1;
      this.#entries.clear();
    }
    this.#reached = version;
    this.#lists += 1;
    const listed = this.#entries.size === 0 ? objects : this.#overlay(objects, startedAtMs);
    const deltas = this.#store.replace(listed, {
      ...(this.#namespace !== undefined && { namespace: this.#namespace }),
      trustVersions: !isRestored,
    });
    return [...deltas, ...this.settle()];
  }

  /**
   * Whether the server was restored from a backup: the list is older than what the watch or an earlier response has
   * shown.
   */
  #isRestored(version: string, startedAtMs: number): boolean {
    if (this.#reached !== undefined && compareResourceVersions(version, this.#reached) < 0) return true;
    for (const entry of this.#entries.values()) {
      if (entry.sinceMs < startedAtMs && compareResourceVersions(version, entry.version) < 0) return true;
    }
    return false;
  }

  /** Ends the entries that the list decides, and returns the objects that the store must hold. */
  #overlay(objects: readonly T[], startedAtMs: number): readonly T[] {
    const uids = new Map(objects.map(({ metadata }) => [keyString(metadata), metadata.uid]));
    const kept: T[] = [];
    for (const [key, entry] of this.#entries) {
      if (entry.state === 'gone') {
        entry.isDelivered = uids.get(key) === entry.uid;
        // A list that still has the deleted object is older than the response.
        if (entry.sinceMs < startedAtMs || (!entry.isDelivered && this.hasReached(entry.version))) this.#end(entry);
      } else if (this.hasReached(entry.version)) this.#end(entry);
      else if (entry.state === 'shown') {
        const held = this.#store.get(entry.key);
        entry.isDelivered = uids.get(key) === entry.uid;
        if (held !== undefined) kept.push(held);
      }
    }
    // The remaining entries are newer than the list, so the list has only older objects of their names.
    return [...objects.filter(({ metadata }) => !this.#entries.has(keyString(metadata))), ...kept];
  }

  /** Whether an entry is newer than this event. If the event is as new or newer, the entry ends. */
  #isOverlaid({ type, object: { metadata } }: ObjectEvent<T>): boolean {
    const entry = this.#entries.size === 0 ? undefined : this.#entries.get(keyString(metadata));
    if (entry === undefined) return false;
    const difference = compareResourceVersions(metadata.resourceVersion, entry.version);
    if (entry.state === 'gone' && entry.uid === metadata.uid) {
      // An older DELETED event means that the object left the selection first, and was written and deleted later.
      if (type === 'DELETED' && difference >= 0) this.#end(entry);
      else entry.isDelivered = type !== 'DELETED';
      return true;
    }
    if (difference < 0) {
      entry.isDelivered = type !== 'DELETED' && entry.uid === metadata.uid;
      return true;
    }
    this.#end(entry);
    return false;
  }

  #take({ type, object }: ObjectEvent<T>): readonly Delta<T>[] {
    if (type !== 'DELETED') return this.#put(object);
    return this.#store.get(object.metadata)?.metadata.uid === object.metadata.uid ? this.#delete(object) : none;
  }

  #set(entry: Entry): void {
    this.#entries.set(keyString(entry.key), entry);
  }

  #end(entry: Entry): void {
    this.#entries.delete(keyString(entry.key));
  }

  #put(object: T): readonly Delta<T>[] {
    const held = this.#store.get(object.metadata);
    // Emit the deletion, so that no handler mistakes the new object for the old one.
    const replaced = held !== undefined && held.metadata.uid !== object.metadata.uid ? this.#delete(held) : none;
    const delta = this.#store.set(object);
    return delta === undefined ? replaced : [...replaced, delta];
  }

  #delete(object: T): readonly Delta<T>[] {
    const delta = this.#store.delete(object);
    return delta === undefined ? none : [delta];
  }

  #isComparable(version: string): boolean {
    return isComparable(version) && (this.#reached === undefined || isComparable(this.#reached));
  }
}

type ObjectEvent<T extends KubeObject> = Exclude<WatchEvent<T>, { readonly type: 'BOOKMARK' }>;

const none: readonly never[] = [];
