import { type CacheProgress, compareResourceVersions } from '../cache/index.ts';
import type {
  ApplyOptions,
  Client,
  DeleteCollectionOptions,
  DeleteOptions,
  GetOptions,
  List,
  ListOptions,
  PartialObjectMetadata,
  Patch,
  RequestOptions,
  Scale,
  SubresourceOptions,
  VersionedKey,
  WatchEvent,
  WatchOptions,
} from '../client/index.ts';
import { type Kind, type KubeObject, type Manifest, type ObjectKey, resourceName } from '../kind/index.ts';

interface Floor {
  readonly informer: CacheProgress;
  readonly resourceVersion: string;
}

interface ParkedKey {
  readonly resourceVersion: string;
  readonly key: string;
}

/**
 * Keeps a reconcile from reading a store that has not yet seen what an earlier reconcile of the same key wrote: each
 * write's resourceVersion is a floor for its key, and a key below a floor is parked, no worker waiting, until the
 * informer has got there. As kube-controller-manager does (pkg/controller/util/consistency).
 */
export class ReadYourWrites {
  readonly #informers: ReadonlyMap<string, CacheProgress>;
  readonly #resume: (key: string) => void;
  readonly #floors = new Map<string, Map<string, Floor>>();
  readonly #parked = new Map<CacheProgress, ParkedKey[]>();
  /** The keys in the lists of {@link #parked}, each of which is in one of them, once. */
  readonly #parkedKeys = new Set<string>();

  /**
   * @param informers those that the controller reads from; writes to other kinds set no floor.
   * @param resume called with a parked key when its informer has reached the floor.
   */
  constructor(informers: readonly CacheProgress[], resume: (key: string) => void) {
    this.#informers = new Map(informers.map((informer) => [resourceName(informer.kind), informer]));
    this.#resume = resume;
    for (const informer of new Set(informers)) {
      this.#parked.set(informer, []);
      informer.onProgress(() => this.#release(informer));
    }
  }

  /** Parks the key if a store that its reconcile reads is behind its own writes, and tells whether it did. */
  parked(key: string): boolean {
    if (this.#parkedKeys.has(key)) return true;
    const floors = this.#floors.get(key);
    if (floors === undefined) return false;
    for (const { informer, resourceVersion } of floors.values()) {
      if (!informer.hasReached(resourceVersion)) {
        this.#park(informer, { key, resourceVersion });
        return true;
      }
    }
    this.#floors.delete(key);
    return false;
  }

  /**
   * Brings the key back, after a reconcile that has written, when the stores have seen the writes. Their events do so
   * too, as a rule; but what came and went again between two lists has none.
   */
  follow(key: string): void {
    if (this.#floors.has(key) && !this.parked(key)) this.#resume(key);
  }

  /** The client for one reconcile: it notes its writes under the key, and its requests end with the signal. */
  client(client: Client, key: string, signal: AbortSignal): Client {
    return new NotingClient(client, signal, (kind, resourceVersion) => this.#note(key, kind, resourceVersion));
  }

  #note(key: string, kind: Kind, resourceVersion: string): void {
    const resource = resourceName(kind);
    const informer = this.#informers.get(resource);
    if (informer === undefined || informer.hasReached(resourceVersion)) return;
    const floors = this.#floors.get(key) ?? new Map<string, Floor>();
    const floor = floors.get(resource);
    // Of writes under way at once the older may be answered last.
    if (floor !== undefined && isNewer(floor.resourceVersion, resourceVersion)) return;
    floors.set(resource, { informer, resourceVersion });
    this.#floors.set(key, floors);
  }

  /** Keeps the list sorted; writes come in about the order of their versions, so the place is near the end. */
  #park(informer: CacheProgress, entry: ParkedKey): void {
    const parked = this.#parked.get(informer) ?? [];
    const after = parked.findLastIndex(({ resourceVersion }) => !isNewer(resourceVersion, entry.resourceVersion));
    parked.splice(after + 1, 0, entry);
    this.#parkedKeys.add(entry.key);
  }

  #release(informer: CacheProgress): void {
    const parked = this.#parked.get(informer) ?? [];
    for (let first = parked[0]; first !== undefined && informer.hasReached(first.resourceVersion); first = parked[0]) {
      parked.shift();
      this.#parkedKeys.delete(first.key);
      this.#resume(first.key);
    }
  }
}

const isNewer = (a: string, b: string): boolean => compareResourceVersions(a, b) > 0;

/** A client that tells of every write's resourceVersion and binds each request to the reconcile's signal. */
class NotingClient implements Client {
  readonly #client: Client;
  readonly #signal: AbortSignal;
  readonly #note: (kind: Kind, resourceVersion: string) => void;

  constructor(client: Client, signal: AbortSignal, note: (kind: Kind, resourceVersion: string) => void) {
    this.#client = client;
    this.#signal = signal;
    this.#note = note;
  }

  get<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: GetOptions): Promise<T> {
    return this.#client.get(kind, key, this.#bound(options));
  }

  list<T extends KubeObject>(kind: Kind<T>, options?: ListOptions): Promise<List<T>> {
    return this.#client.list(kind, this.#bound(options));
  }

  watch<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>> {
    return this.#client.watch(kind, this.#bound(options));
  }

  getMetadata(kind: Kind, key: ObjectKey, options?: GetOptions): Promise<PartialObjectMetadata> {
    return this.#client.getMetadata(kind, key, this.#bound(options));
  }

  listMetadata(kind: Kind, options?: ListOptions): Promise<List<PartialObjectMetadata>> {
    return this.#client.listMetadata(kind, this.#bound(options));
  }

  watchMetadata(kind: Kind, options: WatchOptions): AsyncIterable<WatchEvent<PartialObjectMetadata>> {
    return this.#client.watchMetadata(kind, this.#bound(options));
  }

  watchBatches<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]> {
    return this.#client.watchBatches(kind, options);
  }

  create<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: RequestOptions): Promise<T> {
    return this.#noted(kind, this.#client.create(kind, manifest, this.#bound(options)));
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

  delete<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: DeleteOptions): Promise<T | undefined> {
    return this.#noted(kind, this.#client.delete(kind, key, this.#bound(options)));
  }

  /** Sets no floor: what is answered are the objects as they were before. */
  deleteCollection<T extends KubeObject>(kind: Kind<T>, options?: DeleteCollectionOptions): Promise<readonly T[]> {
    return this.#client.deleteCollection(kind, this.#bound(options));
  }

  async #noted<R extends KubeObject | undefined>(kind: Kind, write: Promise<R>): Promise<R> {
    const object = await write;
    if (object !== undefined) this.#note(kind, object.metadata.resourceVersion);
    return object;
  }

  #bound<O extends { readonly signal?: AbortSignal }>(options: O | undefined): O {
    const own = options?.signal;
    const signal = own === undefined ? this.#signal : AbortSignal.any([this.#signal, own]);
    return { ...options, signal } as O;
  }
}
