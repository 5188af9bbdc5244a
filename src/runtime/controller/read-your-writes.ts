import { type CacheProgress, compareResourceVersions, type Delta } from '../cache/index.ts';
import {
  type ApplyOptions,
  type Client,
  type CreateOptions,
  type DeleteCollectionOptions,
  type DeleteOptions,
  type GetOptions,
  isNotFound,
  type List,
  type ListOptions,
  type PartialObjectMetadata,
  type Patch,
  type RequestOptions,
  type Scale,
  type SubresourceOptions,
  type VersionedKey,
  type WatchEvent,
  type WatchOptions,
} from '../client/index.ts';
import { type Kind, type KubeObject, type Manifest, type ObjectKey, resourceName } from '../kind/index.ts';
import { ParkedKeys } from './parked-keys.ts';

/** One watch: an informer's, or that of one of the namespaces which it is limited to. */
interface Lane {
  readonly informer: CacheProgress;
  readonly namespace: string | undefined;
  readonly parked: ParkedKeys;
}

/** What a store must show before the key is reconciled again. */
type Floor =
  | { readonly type: 'version'; readonly lane: Lane; readonly resourceVersion: string }
  /** A finished delete is answered without a resourceVersion: the object of this uid must be gone. */
  | { readonly type: 'deletion'; readonly informer: CacheProgress; readonly object: ObjectKey; readonly uid: string };

/**
 * Keeps a reconcile from reading a store that has not yet seen what an earlier reconcile of the same key wrote: each
 * write's resourceVersion is a floor for its key, and a key below a floor is parked, no worker waiting, until the
 * informer has got there. As kube-controller-manager does (pkg/controller/util/consistency). So is the resourceVersion
 * of what it has read of an object past the store, and the absence of one that it wanted to delete.
 *
 * A floor can be reached, or is dropped: writes to what an informer does not hold set none, and when the server has gone
 * back to an older state, or an informer stops, its floors fall and its keys come back.
 */
export class ReadYourWrites {
  readonly #informers: ReadonlyMap<string, CacheProgress>;
  readonly #resume: (key: string) => void;
  readonly #floors = new Map<string, Floor[]>();
  readonly #lanes = new Map<CacheProgress, Map<string, Lane>>();
  /** Keys by the uid that each waits to see gone. */
  readonly #parkedByUid = new Map<string, string[]>();
  /** The parked keys, each of which waits for one floor of its own. */
  readonly #parked = new Map<string, Floor>();
  readonly #detach: (() => void)[] = [];

  /**
   * @param informers those that the controller reads from; writes to other kinds set no floor.
   * @param resume called with a parked key when its informer has reached the floor.
   */
  constructor(informers: readonly CacheProgress[], resume: (key: string) => void) {
    this.#informers = new Map(informers.map((informer) => [resourceName(informer.kind), informer]));
    this.#resume = resume;
    for (const informer of new Set(informers)) {
      const namespaces = informer.namespaces ?? [undefined];
      const lanes = namespaces.map((namespace) => ({ informer, namespace, parked: new ParkedKeys() }));
      this.#lanes.set(informer, new Map(lanes.map((lane) => [lane.namespace ?? '', lane])));
      this.#detach.push(
        informer.onProgress((namespace) => this.#release(this.#lane(informer, namespace))),
        informer.addHandler((delta) => this.#releaseUid(delta)),
        informer.onReset(() => this.#drop(informer)),
      );
    }
  }

  /** Hears nothing more from its informers: no key comes back any more. */
  detach(): void {
    for (const detach of this.#detach.splice(0)) detach();
  }

  /** Parks the key if a store that its reconcile reads is behind its own writes, and tells whether it did. */
  parked(key: string): boolean {
    if (this.#parked.has(key)) return true;
    const floors = this.#floors.get(key) ?? [];
    const first = floors.findIndex((floor) => !isMet(floor));
    const unmet = floors[first];
    if (unmet === undefined) {
      this.#floors.delete(key);
      return false;
    }
    // What is met stays so: the many of a deleteCollection are looked at once each.
    floors.splice(0, first);
    this.#park(key, unmet);
    return true;
  }

  /**
   * Brings the key back, after a reconcile that has written, when the stores have seen the writes. Their events do so
   * too, as a rule; but what came and went again between two lists has none.
   */
  follow(key: string): void {
    if (this.#floors.has(key) && !this.parked(key)) this.#resume(key);
  }

  /** The client for one reconcile: it notes its writes, and the objects that it reads, under the key, and its requests end with the signal. */
  client(client: Client, key: string, signal: AbortSignal): Client {
    return new NotingClient(client, signal, {
      written: (kind, object) => this.#written(key, kind, object),
      deleted: (kind, object, uid) => this.#deleted(key, kind, object, uid),
      uidOf: (kind, object) => this.#informers.get(resourceName(kind))?.store.get(object)?.metadata.uid,
    });
  }

  #written(key: string, kind: Kind, object: KubeObject): void {
    const informer = this.#informers.get(resourceName(kind));
    if (informer === undefined || !informer.covers(object)) return;
    const lane = this.#lane(informer, object.metadata.namespace);
    const { resourceVersion } = object.metadata;
    if (lane === undefined || informer.hasReached(resourceVersion, lane.namespace)) return;
    const floors = this.#floors.get(key) ?? [];
    const known = floors.findIndex((floor) => floor.type === 'version' && floor.lane === lane);
    const newest = floors[known];
    if (newest === undefined) floors.push({ type: 'version', lane, resourceVersion });
    // Of writes under way at once the older may be answered last.
    else if (newest.type === 'version' && compareResourceVersions(newest.resourceVersion, resourceVersion) < 0) {
      floors[known] = { type: 'version', lane, resourceVersion };
    }
    this.#floors.set(key, floors);
  }

  #deleted(key: string, kind: Kind, object: ObjectKey, uid: string): void {
    const informer = this.#informers.get(resourceName(kind));
    const stored = informer?.store.get(object);
    if (informer === undefined || stored === undefined || !informer.covers(stored)) return;
    const floor: Floor = { type: 'deletion', informer, object, uid };
    if (isMet(floor)) return;
    const floors = this.#floors.get(key);
    if (floors === undefined) this.#floors.set(key, [floor]);
    else floors.push(floor);
  }

  #lane(informer: CacheProgress, namespace: string | undefined): Lane | undefined {
    return this.#lanes.get(informer)?.get(informer.namespaces === undefined ? '' : (namespace ?? ''));
  }

  #park(key: string, floor: Floor): void {
    this.#parked.set(key, floor);
    if (floor.type === 'version') {
      floor.lane.parked.add(key, floor.resourceVersion);
    } else {
      const keys = this.#parkedByUid.get(floor.uid);
      if (keys === undefined) this.#parkedByUid.set(floor.uid, [key]);
      else keys.push(key);
    }
  }

  #release(lane: Lane | undefined): void {
    if (lane === undefined) return;
    const { informer, namespace, parked } = lane;
    const reached = (resourceVersion: string): boolean => informer.hasReached(resourceVersion, namespace);
    for (let key = parked.take(reached); key !== undefined; key = parked.take(reached)) this.#bringBack(key);
  }

  #releaseUid(delta: Delta<KubeObject>): void {
    if (this.#parkedByUid.size === 0) return;
    const { uid, deletionTimestamp } = delta.object.metadata;
    if (delta.type !== 'deleted' && deletionTimestamp === undefined) return;
    const keys = this.#parkedByUid.get(uid);
    this.#parkedByUid.delete(uid);
    for (const key of keys ?? []) this.#bringBack(key);
  }

  #drop(informer: CacheProgress): void {
    for (const [key, floors] of this.#floors) {
      const others = floors.filter((floor) => informerOf(floor) !== informer);
      if (others.length === floors.length) continue;
      if (others.length === 0) this.#floors.delete(key);
      else this.#floors.set(key, others);
      // Its reconcile is under way: what that wrote may be gone without any list that ever had it.
      if (!this.#parked.has(key)) this.#resume(key);
    }
    for (const [namespace, lane] of this.#lanes.get(informer) ?? []) {
      this.#lanes.get(informer)?.set(namespace, { ...lane, parked: new ParkedKeys() });
    }
    for (const [key, floor] of this.#parked) {
      if (informerOf(floor) !== informer) continue;
      if (floor.type === 'deletion') this.#parkedByUid.delete(floor.uid);
      this.#bringBack(key);
    }
  }

  #bringBack(key: string): void {
    this.#parked.delete(key);
    this.#resume(key);
  }
}

function isMet(floor: Floor): boolean {
  if (floor.type === 'version') return floor.lane.informer.hasReached(floor.resourceVersion, floor.lane.namespace);
  const stored = floor.informer.store.get(floor.object);
  // One that has begun to go may be held up for long, by a finalizer of this very controller.
  return stored?.metadata.uid !== floor.uid || stored.metadata.deletionTimestamp !== undefined;
}

const informerOf = (floor: Floor): CacheProgress => (floor.type === 'version' ? floor.lane.informer : floor.informer);

/** What a {@link NotingClient} tells of the writes of its reconcile, and of what they are known to have left. */
interface Notes {
  written(kind: Kind, object: KubeObject): void;
  deleted(kind: Kind, object: ObjectKey, uid: string): void;
  /** The uid of the object as the store has it. */
  uidOf(kind: Kind, object: ObjectKey): string | undefined;
}

/** A client that tells of the resourceVersion of every object written or read and binds each request to the reconcile's signal. */
class NotingClient implements Client {
  readonly #client: Client;
  readonly #signal: AbortSignal;
  readonly #notes: Notes;

  constructor(client: Client, signal: AbortSignal, notes: Notes) {
    this.#client = client;
    this.#signal = signal;
    this.#notes = notes;
  }

  /** What was read shows what was written, also where the write's own answer was lost. A version that was read can be reached. */
  get<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: GetOptions): Promise<T> {
    return this.#noted(kind, this.#client.get(kind, key, this.#bound(options)));
  }

  list<T extends KubeObject>(kind: Kind<T>, options?: ListOptions): Promise<List<T>> {
    return this.#client.list(kind, this.#bound(options));
  }

  watch<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>> {
    return this.#client.watch(kind, this.#bound(options));
  }

  getMetadata(kind: Kind, key: ObjectKey, options?: GetOptions): Promise<PartialObjectMetadata> {
    return this.#noted(kind, this.#client.getMetadata(kind, key, this.#bound(options)));
  }

  listMetadata(kind: Kind, options?: ListOptions): Promise<List<PartialObjectMetadata>> {
    return this.#client.listMetadata(kind, this.#bound(options));
  }

  watchMetadata(kind: Kind, options: WatchOptions): AsyncIterable<WatchEvent<PartialObjectMetadata>> {
    return this.#client.watchMetadata(kind, this.#bound(options));
  }

  watchBatches<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]> {
    return this.#client.watchBatches(kind, this.#bound(options));
  }

  create<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: CreateOptions): Promise<T> {
    const created = this.#client.create(kind, manifest, this.#bound(options));
    return options?.dryRun ? created : this.#noted(kind, created);
  }

  update<T extends KubeObject>(kind: Kind<T>, object: NoInfer<T>, options?: SubresourceOptions): Promise<T> {
    return this.#noted(kind, this.#client.update<T>(kind, object, this.#bound(options)));
  }

  patch<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, patch: Patch, options?: SubresourceOptions): Promise<T> {
    return this.#noted(kind, this.#client.patch(kind, key, patch, this.#bound(options)));
  }

  apply<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: ApplyOptions): Promise<T> {
    return this.#noted(kind, this.#client.apply(kind, manifest, this.#bound(options)));
  }

  updateStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    object: NoInfer<T>,
    options?: RequestOptions,
  ): Promise<T> {
    return this.#noted(kind, this.#client.updateStatus<T>(kind, object, this.#bound(options)));
  }

  mergeStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    key: VersionedKey,
    status: object,
    options?: RequestOptions,
  ): Promise<T> {
    return this.#noted(kind, this.#client.mergeStatus(kind, key, status, this.#bound(options)));
  }

  applyStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    key: ObjectKey,
    status: object,
    options?: ApplyOptions,
  ): Promise<T> {
    return this.#noted(kind, this.#client.applyStatus(kind, key, status, this.#bound(options)));
  }

  getScale(kind: Kind, key: ObjectKey, options?: RequestOptions): Promise<Scale> {
    return this.#client.getScale(kind, key, this.#bound(options));
  }

  /** A scale has the resourceVersion of its object. */
  patchScale(kind: Kind, key: ObjectKey | VersionedKey, replicas: number, options?: RequestOptions): Promise<Scale> {
    return this.#noted(kind, this.#client.patchScale(kind, key, replicas, this.#bound(options)));
  }

  async delete<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: DeleteOptions): Promise<T | undefined> {
    const known = options?.uid ?? this.#notes.uidOf(kind, key);
    const object = await this.#deleted(kind, key, known, options);
    if (object !== undefined) this.#notes.written(kind, object);
    // Some kinds are answered by the object, of a version before its deletion, though it is gone.
    if (object === undefined || object.metadata.deletionTimestamp === undefined) {
      const uid = object?.metadata.uid ?? known;
      if (uid !== undefined) this.#notes.deleted(kind, key, uid);
    }
    return object;
  }

  async #deleted<T extends KubeObject>(
    kind: Kind<T>,
    key: ObjectKey,
    uid: string | undefined,
    options: DeleteOptions | undefined,
  ): Promise<T | undefined> {
    try {
      return await this.#client.delete(kind, key, this.#bound(options));
    } catch (error) {
      // It is gone, which the store may not know yet. (A kind that is not served is not found either, and names nothing.)
      const isGone = isNotFound(error) && error.status.details?.name === key.name;
      if (isGone && uid !== undefined) this.#notes.deleted(kind, key, uid);
      throw error;
    }
  }

  /** What is answered are the objects as they were before: each is waited for by its uid. */
  async deleteCollection<T extends KubeObject>(
    kind: Kind<T>,
    options?: DeleteCollectionOptions,
  ): Promise<readonly T[]> {
    const objects = await this.#client.deleteCollection(kind, this.#bound(options));
    for (const { metadata } of objects) this.#notes.deleted(kind, metadata, metadata.uid);
    return objects;
  }

  async #noted<T extends KubeObject>(kind: Kind, answer: Promise<T>): Promise<T> {
    const object = await answer;
    this.#notes.written(kind, object);
    return object;
  }

  #bound<O extends { readonly signal?: AbortSignal }>(options: O | undefined): O {
    const own = options?.signal;
    const signal = own === undefined ? this.#signal : AbortSignal.any([this.#signal, own]);
    return { ...options, signal } as O;
  }
}
