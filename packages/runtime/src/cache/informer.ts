import { type ApiError, isForbidden } from '../client/api-error.ts';
import type { Client, WatchEvent } from '../client/client.ts';
import { apiVersionOf, type Kind, resourceName, selectorsOf } from '../kind/kind.ts';
import { type KubeObject, keyOf, keyString, type ObjectKey } from '../kind/object.ts';
import { isReadable, UnreadableObjectError, unreadableMembersOf } from '../kind/unreadable-object.ts';
import type { Logger } from '../shared/logger.ts';
import { requireTimerMs } from '../shared/timer-ms.ts';
import { deepFreeze } from './deep-freeze.ts';
import type { IndexFunction } from './object-index.ts';
import { Overlay } from './overlay.ts';
import { Reflector, type ReflectorOptions, type ReflectorProgress, type ReflectorTarget } from './reflector.ts';
import { Scope, type ScopeOptions } from './scope.ts';
import { copy, copyUnreadable, share } from './sharing.ts';
import { type Delta, type ReadonlyStore, Store } from './store.ts';
import { Watchdog } from './watchdog.ts';

/**
 * Where a change was observed: in a list (the first, or a relist that found a missed change), in a watch, or in the
 * response to a request of a reconcile.
 */
export type DeltaOrigin = 'list' | 'watch' | 'response';

/** The key whose reconcile sent a request. */
export interface Writer {
  /** Identifies the controller. */
  readonly controller: object;
  readonly key: string;
}

/** Returns the writer if a delta contains only what the writer's reconcile sent. Handlers skip that key. */
export type WriterOf = (delta: Delta<KubeObject>) => Writer | undefined;

/** A request about one object. The store shows the response, and the handlers receive the resulting changes. */
export interface TrackedRequest<T extends KubeObject = KubeObject> {
  /** The uid of the object that the store held when the request was sent. */
  readonly uid: string | undefined;
  /**
   * Call this first when the request has a response or has failed: later events are no longer ascribed to the request.
   */
  end(): void;
  /** Shows a copy of the object of the response until the watch has passed it; see {@link Overlay.show}. */
  show(object: T): void;
  /** Hides an object that the response showed to be gone; see {@link Overlay.hide}. */
  hide(uid: string): void;
  /** Whether a list may have hidden what happened to the object of the response; see {@link Overlay.isOvertaken}. */
  isOvertaken(object: T): boolean;
}

/**
 * Called for every change, in order, after the store has applied it. Must be synchronous. A handler that throws misses
 * that change.
 *
 * @param writer set if the delta contains only what the reconcile of this key sent
 */
export type DeltaHandler<T extends KubeObject> = (
  delta: Delta<T>,
  origin: DeltaOrigin,
  writer: Writer | undefined,
) => void;

/** The members of an informer that do not depend on its objects' type. */
export type AnyInformer = Pick<
  Informer<KubeObject>,
  | 'kind'
  | 'namespaces'
  | 'store'
  | 'run'
  | 'onUnavailable'
  | 'synced'
  | 'hasSynced'
  | 'isDefective'
  | 'missingPermission'
  | 'failingForMs'
  | 'trackRequest'
  | 'addHandler'
  | 'selection'
  | 'asStored'
  | 'waitingResponses'
>;

/** What an informer has done so far, for metrics. With several namespaces: the sums, and the longest time. */
export interface CacheStatistics {
  readonly objects: number;
  /** Objects with a member that cannot be read because it is nested too deep. */
  readonly unreadableObjects: number;
  /** Complete lists. Each after the first is a relist. */
  readonly lists: number;
  readonly failedLists: number;
  readonly failedWatches: number;
  /** Watches that were replaced because they were silent while responses waited for their events. */
  readonly replacedWatches: number;
  /**
   * For how long the server has not shown that the cache is current; see {@link ReflectorProgress}. Undefined while it
   * does not run, and while an optional kind is unavailable.
   */
  readonly unconfirmedForMs: number | undefined;
}

/**
 * Why an informer cannot read its kind: the server forbids listing or watching it (403), or does not serve it (404).
 */
export interface Unavailability {
  readonly verb: 'list' | 'watch';
  /** Undefined: all namespaces, or a cluster-scoped kind. */
  readonly namespace: string | undefined;
  readonly error: ApiError;
  /** When the server first and last responded so, by `performance.now`, with no other response in between. */
  readonly sinceMs: number;
  readonly lastMs: number;
}

/** Which objects an informer holds, and in which form. */
export interface InformerOptions<T extends KubeObject> extends ScopeOptions, ReflectorOptions {
  /**
   * Drops unused fields of an object before it is stored. May change its argument and return it, but must keep the
   * name, namespace, uid and resourceVersion. If it throws, the whole object is stored.
   */
  readonly transform?: (object: T) => T;
  /** Keep `metadata.managedFields`, which are often half of an object. Default false. */
  readonly keepManagedFields?: boolean;
  /** Deep-freeze stored objects, so that a change throws. Costs time; meant for tests. Default false. */
  readonly freeze?: boolean;
  /**
   * The kind may be unavailable. While it is, the informer counts as synced, keeps the objects that it has, and retries
   * at least once a minute.
   *
   * Default false: the informer syncs only when the kind can be listed. If the kind becomes unavailable later, the
   * manager is not ready.
   */
  readonly optional?: boolean;
  /**
   * Whether the manager waits for the first list before it starts a controller that watches the kind, and is not ready
   * while the cache is stale. If false, the controller begins with the objects that have arrived; each later one
   * enqueues its key. Default true.
   */
  readonly delaysStart?: boolean;
  /**
   * How long a watch may be silent, in milliseconds, while the store shows a response that the watch has not delivered.
   * After that the watch is replaced. Default 10,000.
   */
  readonly silentWatchTimeoutMs?: number;
}

/**
 * Caches one kind: a store, with one reflector for all namespaces or one per watched namespace (a partition). All
 * controllers that watch the kind share it.
 */
export class Informer<T extends KubeObject> {
  readonly kind: Kind<T>;
  /** The namespaces that the informer is limited to. Undefined: all. */
  readonly namespaces: readonly string[] | undefined;
  readonly #options: InformerOptions<T>;
  readonly #store: Store<T>;
  readonly #scope: Scope;
  readonly #log: Logger;
  readonly #partitions: ReadonlyMap<string, Partition<T>>;
  /** Copied on write, so that a running loop iterates over an unchanged list. */
  #handlers: readonly Registration<T>[] = [];
  readonly #unavailableListeners: (() => void)[] = [];
  readonly #synced = Promise.withResolvers<void>();
  #unsynced: number;
  #isRunning = false;
  /** The managedFields of delivered objects, until the handlers have been called. Undefined: no handler reads them. */
  #fieldOwners: Map<KubeObject, readonly FieldOwner[]> | undefined;
  /** The writers of the requests in flight, by the `keyString` of the object that the request is about. */
  readonly #writersInFlight = new Map<string, readonly WriterOf[]>();
  /** The last prepared object. An object that is new to the store shares equal parts with it. */
  #shareReference: T | undefined;

  /**
   * @throws RangeError for an empty list of namespaces, and for a timeout that is not positive or too long for a timer.
   */
  constructor(options: { readonly client: Client; readonly kind: Kind<T>; readonly log: Logger } & InformerOptions<T>) {
    const { kind, log, namespaces } = options;
    if (namespaces?.length === 0)
      throw new RangeError(
        `namespaces of ${resourceName(kind)} must not be empty, is []: leave it out for all namespaces`,
      );
    requireTimerMs('silentWatchTimeoutMs', options.silentWatchTimeoutMs);
    this.kind = kind;
    this.namespaces = namespaces;
    this.#options = options;
    this.#scope = new Scope({ ...(namespaces !== undefined && { namespaces }), ...selectorsOf(kind, options) });
    this.#log = log.child({ resource: resourceName(kind) });
    this.#store = new Store<T>({
      kind,
      indexFailed: (error, object, index) => {
        // The informer logged the object when it arrived.
        if (error instanceof UnreadableObjectError) return;
        const details = { err: error, object: keyString(keyOf(object)), index };
        this.#log.error(details, 'an index function threw: the index does not find the object');
      },
    });
    const partitions = new Set(namespaces ?? [undefined]);
    this.#partitions = new Map(
      [...partitions].map((namespace) => [namespace ?? '', this.#createPartition(namespace, options)]),
    );
    this.#unsynced = this.#partitions.size;
  }

  get store(): ReadonlyStore<T> {
    return this.#store;
  }

  /** Whether each partition was listed once, or its optional kind is unavailable (then the store may be empty). */
  get hasSynced(): boolean {
    return this.#unsynced === 0;
  }

  /**
   * Whether a list or watch failed on a programming error: the store is stale until a list or an event has been
   * processed without an error.
   */
  get isDefective(): boolean {
    return [...this.#partitions.values()].some((partition) => partition.isDefective);
  }

  /** Computed on each call, so do not call it on a hot path. */
  statistics(): CacheStatistics {
    const all = [...this.#partitions.values()].map(({ reflector }) => reflector.progress);
    const total = (count: (progress: ReflectorProgress) => number): number =>
      all.reduce((sum, progress) => sum + count(progress), 0);
    const confirmed = this.#needed()
      .map(({ reflector }) => reflector.progress.confirmedAtMs)
      .filter((timeMs) => timeMs !== undefined);
    return {
      objects: this.#store.size,
      unreadableObjects: this.#store.unreadable,
      lists: total(({ lists }) => lists),
      failedLists: total(({ failedLists }) => failedLists),
      failedWatches: total(({ failedWatches }) => failedWatches),
      replacedWatches: [...this.#partitions.values()].reduce((sum, { replacedWatches }) => sum + replacedWatches, 0),
      unconfirmedForMs: confirmed.length === 0 ? undefined : performance.now() - Math.min(...confirmed),
    };
  }

  /**
   * For how long lists and watches have failed without a success (in the namespace where it is longest), in
   * milliseconds: the store may be stale. 0 while an optional kind is unavailable.
   */
  failingForMs(): number {
    const since = this.#needed().map(({ reflector }) => reflector.progress.failingSinceMs ?? Number.POSITIVE_INFINITY);
    return Math.max(0, performance.now() - Math.min(...since));
  }

  #needed(): readonly Partition<T>[] {
    return [...this.#partitions.values()].filter(({ unavailability }) => !(this.#options.optional && unavailability));
  }

  /** Resolves when {@link hasSynced} becomes true. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  /**
   * The permission that keeps the informer from syncing, if the server has denied every request for
   * at least `forMs` milliseconds. Undefined for an optional kind.
   */
  missingPermission(forMs: number): Unavailability | undefined {
    if (this.#options.optional) return undefined;
    return [...this.#partitions.values()]
      .map(({ unavailability }) => unavailability)
      .find((found) => found && isForbidden(found.error) && found.lastMs - found.sinceMs >= forMs);
  }

  /** Which objects of the kind the informer holds. */
  get selection(): ScopeOptions {
    const { namespaces } = this.#options;
    return { ...(namespaces !== undefined && { namespaces }), ...selectorsOf(this.kind, this.#options) };
  }

  /** How many names the store shows from a response that the watch has not passed yet. */
  get waitingResponses(): number {
    return [...this.#partitions.values()].reduce((sum, { overlay }) => sum + overlay.size, 0);
  }

  /** Returns a transformed copy of an object, as the store would hold it. */
  asStored(object: T): T {
    return this.#transformed(copy(this.#withoutManagedFields(this.#metadataOf({ ...object }))));
  }

  /**
   * Adds an index over present and future objects, for `byIndex` of the store. May be called at any time.
   *
   * @param values must be pure, and depend on the object alone; see {@link IndexFunction}.
   * @throws RangeError if the name is taken.
   */
  addIndex(name: string, values: IndexFunction<T>): void {
    this.#store.addIndex(name, values);
  }

  /**
   * Adds a handler. It is called immediately with an `added` delta per stored object, then with every change.
   *
   * @returns a function that removes the handler.
   */
  addHandler(handler: DeltaHandler<T>): () => void {
    const registration: Registration<T> = { handler, isActive: true };
    for (const object of this.#store.list()) this.#notify(registration, { type: 'added', object }, 'list', undefined);
    this.#handlers = [...this.#handlers, registration];
    return () => {
      registration.isActive = false;
      this.#handlers = this.#handlers.filter((other) => other !== registration);
    };
  }

  /**
   * Keeps the `managedFields` of each object that a watch or a response delivers, until the handlers have been called.
   * A watch that is already open may have been opened without them.
   *
   * @returns a function for handlers that returns the managedFields of a delta's object.
   */
  trackFieldOwners(): (object: KubeObject) => readonly FieldOwner[] {
    this.#fieldOwners ??= new Map();
    return (object) => this.#fieldOwners?.get(object) ?? [];
  }

  /** Calls the listener each time that the server denies a kind that has never been listed. */
  onUnavailable(listener: () => void): void {
    this.#unavailableListeners.push(listener);
  }

  /**
   * Call this before a request about an object is sent. Returns undefined if the object is in none of the informer's
   * namespaces.
   */
  trackRequest(key: ObjectKey, writerOf: WriterOf): TrackedRequest<T> | undefined {
    const partition = this.#partitions.get(this.namespaces === undefined ? '' : (key.namespace ?? ''));
    if (partition === undefined) return undefined;
    const { overlay } = partition;
    const id = keyString(key);
    const sent = overlay.beforeRequest(key);
    this.#writersInFlight.set(id, [...(this.#writersInFlight.get(id) ?? []), writerOf]);
    return {
      uid: sent.uid,
      end: () => {
        const others = this.#writersInFlight.get(id)?.filter((other) => other !== writerOf) ?? [];
        if (others.length === 0) this.#writersInFlight.delete(id);
        else this.#writersInFlight.set(id, others);
      },
      show: (object) => {
        const deltas = overlay.show(object, sent, performance.now(), (whole) => this.#prepare(whole, 'response'));
        this.#responded(partition, deltas, [writerOf]);
      },
      hide: (uid) => this.#responded(partition, overlay.hide(key, uid, sent, performance.now()), []),
      isOvertaken: (object) => overlay.isOvertaken(object, sent),
    };
  }

  /**
   * Whether the store holds everything up to this resourceVersion.
   *
   * @param namespace checks only this namespace if the informer is limited to namespaces.
   */
  hasReached(resourceVersion: string, namespace?: string): boolean {
    const partitions =
      this.namespaces === undefined || namespace === undefined
        ? [...this.#partitions.values()]
        : [this.#partitions.get(namespace)];
    return partitions.every((partition) => partition?.overlay.hasReached(resourceVersion) ?? false);
  }

  /**
   * Runs until the signal is aborted. A second run continues where the first one stopped.
   *
   * @throws Error if the informer is already running.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#isRunning) throw new Error(`the informer of ${resourceName(this.kind)} is already running`);
    this.#isRunning = true;
    for (const partition of this.#partitions.values()) this.#startWatchdog(partition);
    try {
      await Promise.all([...this.#partitions.values()].map(({ reflector }) => reflector.run(signal)));
    } finally {
      this.#isRunning = false;
      for (const { overlay, watchdog } of this.#partitions.values()) {
        overlay.ignoreResponses();
        watchdog.stop();
      }
    }
  }

  #createPartition(
    namespace: string | undefined,
    options: InformerOptions<T> & { readonly client: Client; readonly log: Logger },
  ): Partition<T> {
    const { client, labelSelector, fieldSelector, listing, watchTimeoutSeconds, backoff } = options;
    const target: ReflectorTarget<T> = {
      prepare: (object, origin) => this.#prepare(object, origin),
      replace: (objects, resourceVersion, startedAtMs) => {
        this.#replace(partition, objects, resourceVersion, startedAtMs);
        partition.isDefective = false;
      },
      takeEvents: (events) => {
        this.#takeEvents(partition, events);
        partition.isDefective = false;
      },
      onUnavailable: (error, verb) => this.#setUnavailable(partition, error, verb),
      onAvailable: () => {
        partition.unavailability = undefined;
      },
      onDefect: () => {
        partition.isDefective = true;
      },
    };
    const selection = {
      ...(namespace !== undefined && { namespace }),
      ...(labelSelector !== undefined && { labelSelector }),
      ...(fieldSelector !== undefined && { fieldSelector }),
    };
    const overlay = new Overlay(this.#store, namespace, (object: T) => this.#scope.covers(object));
    const log = namespace === undefined ? this.#log : this.#log.child({ namespace });
    const reflector = new Reflector({
      client,
      kind: this.kind,
      selection,
      // Handlers read the field owners of watched objects only.
      dropsManagedFields: (verb) =>
        options.keepManagedFields !== true && (verb === 'list' || this.#fieldOwners === undefined),
      target,
      log: namespace === undefined ? options.log : options.log.child({ namespace }),
      ...(listing !== undefined && { listing }),
      ...(watchTimeoutSeconds !== undefined && { watchTimeoutSeconds }),
      ...(backoff !== undefined && { backoff }),
    });
    const partition: Partition<T> = {
      namespace,
      reflector,
      overlay,
      watchdog: new Watchdog({
        timeoutMs: options.silentWatchTimeoutMs ?? 10_000,
        waitingSinceMs: () => overlay.oldestWaiting?.sinceMs,
        replaceWatch: (replacement) => reflector.replaceWatch(replacement),
        replaced: (isFirst) => {
          partition.replacedWatches += 1;
          const waiting = overlay.oldestWaiting;
          if (!isFirst || waiting === undefined) return;
          const seconds = Math.round((performance.now() - waiting.sinceMs) / 1000);
          const details = { object: keyString(waiting.key), written: waiting.version, seconds };
          log.warn(details, 'the watch has not delivered our own write: replacing the watch');
        },
      }),
      replacedWatches: 0,
      hasSynced: false,
      unavailability: undefined,
      isDefective: false,
    };
    return partition;
  }

  #prepare(object: T, origin: DeltaOrigin): T {
    const owners = origin === 'list' ? undefined : fieldOwnersOf(object);
    // The reconcile also has the object of a response, and may change it. So the store gets a copy.
    const isShared = origin === 'response';
    if (!isReadable(object)) return this.#unreadable(isShared ? copyUnreadable(object) : object);
    const kept = this.#withoutManagedFields(this.#metadataOf(isShared ? { ...object } : object));
    const small = this.#transformed(isShared ? copy(kept) : kept);
    const known = this.#store.get(small.metadata);
    const prepared = share(small, known !== undefined && isReadable(known) ? known : this.#shareReference);
    this.#shareReference = prepared;
    if (owners !== undefined) this.#fieldOwners?.set(prepared, owners);
    return this.#options.freeze ? deepFreeze(prepared) : prepared;
  }

  /** Stores an object without transforming, sharing or freezing it: these would read the unreadable members. */
  #unreadable(whole: T): T {
    const object = this.#withoutManagedFields(whole);
    // Items in lists of built-in kinds have no `kind`, but the error for a reader of the object names it.
    if (object.kind === undefined) Object.assign(object, { kind: this.kind.kind });
    if (this.#store.get(object.metadata)?.metadata.resourceVersion !== object.metadata.resourceVersion) {
      const details = { object: keyString(keyOf(object)), members: unreadableMembersOf(object) };
      this.#log.warn(details, 'an object cannot be read whole: its cache entry lacks these members');
    }
    return object;
  }

  /**
   * Returns the metadata of an object of a metadata-only kind. The response to a write has the whole object, and the
   * objects of lists and watches say that they are of the kind PartialObjectMetadata.
   */
  #metadataOf(object: T): T {
    if (!this.kind.view?.isMetadataOnly) return object;
    // The type of a metadata-only kind's objects is KubeObject.
    return { apiVersion: apiVersionOf(this.kind), kind: this.kind.kind, metadata: object.metadata } as KubeObject as T;
  }

  /** Copies the metadata: `delete` would make V8 store the remaining members as a hash table. */
  #withoutManagedFields(object: T): T {
    if (this.#options.keepManagedFields || !('managedFields' in object.metadata)) return object;
    const { managedFields: _, ...metadata } = object.metadata;
    return Object.assign(object, { metadata });
  }

  #transformed(object: T): T {
    const { transform } = this.#options;
    if (transform === undefined) return object;
    try {
      return transform(object);
    } catch (error) {
      this.#log.error(
        { err: error, object: keyString(keyOf(object)) },
        'a transform threw: the object is stored whole',
      );
      return object;
    }
  }

  #replace(partition: Partition<T>, objects: readonly T[], resourceVersion: string, startedAtMs: number): void {
    const handlers = this.#handlers;
    const deltas = partition.overlay.replace(objects, resourceVersion, startedAtMs);
    partition.watchdog.delivered();
    this.#markSynced(partition);
    this.#startWatchdog(partition);
    for (const delta of deltas) this.#emit(handlers, delta, 'list');
    if (this.hasSynced) this.#synced.resolve();
  }

  #responded(partition: Partition<T>, deltas: readonly Delta<T>[], writers: readonly WriterOf[]): void {
    this.#startWatchdog(partition);
    for (const delta of deltas) this.#emit(this.#handlers, delta, 'response', this.#writerOf(delta, writers));
    this.#forgetFieldOwners();
  }

  /**
   * Call this after each change of the overlay. An event or a list can also leave a tombstone that waits for a DELETED
   * event.
   */
  #startWatchdog({ overlay, watchdog }: Partition<T>): void {
    if (overlay.size > 0 && this.#isRunning) watchdog.start();
  }

  #writerOf(delta: Delta<T>, writers: readonly WriterOf[]): Writer | undefined {
    for (const writerOf of writers) {
      const writer = writerOf(delta);
      if (writer !== undefined) return writer;
    }
    return undefined;
  }

  #setUnavailable(partition: Partition<T>, error: ApiError, verb: 'list' | 'watch'): void {
    const lastMs = performance.now();
    const before = partition.unavailability;
    const sinceMs = before?.error.code === error.code ? before.sinceMs : lastMs;
    partition.unavailability = { verb, namespace: partition.namespace, error, sinceMs, lastMs };
    if (!partition.hasSynced) for (const listener of this.#unavailableListeners) listener();
    if (!this.#options.optional) return;
    this.#markSynced(partition);
    if (this.hasSynced) this.#synced.resolve();
  }

  #markSynced(partition: Partition<T>): void {
    if (partition.hasSynced) return;
    partition.hasSynced = true;
    this.#unsynced -= 1;
  }

  #takeEvents(partition: Partition<T>, events: readonly WatchEvent<T>[]): void {
    const { overlay, watchdog } = partition;
    watchdog.delivered();
    for (const event of events) {
      for (const delta of overlay.observe(event)) {
        // The event of a write often arrives before its response.
        const writers =
          this.#writersInFlight.size === 0 ? undefined : this.#writersInFlight.get(keyString(delta.object.metadata));
        this.#emit(this.#handlers, delta, 'watch', writers && this.#writerOf(delta, writers));
      }
    }
    for (const delta of overlay.settle()) this.#emit(this.#handlers, delta, 'watch');
    this.#startWatchdog(partition);
    this.#forgetFieldOwners();
  }

  #forgetFieldOwners(): void {
    // Not `clear`: V8 links the old table of a cleared Map to the new one. A table that was promoted to the old
    // generation would keep the managedFields of all later batches alive until the next major collection.
    if (this.#fieldOwners !== undefined && this.#fieldOwners.size > 0) this.#fieldOwners = new Map();
  }

  #emit(handlers: readonly Registration<T>[], delta: Delta<T>, origin: DeltaOrigin, writer?: Writer): void {
    for (const registration of handlers) this.#notify(registration, delta, origin, writer);
  }

  #notify(registration: Registration<T>, delta: Delta<T>, origin: DeltaOrigin, writer: Writer | undefined): void {
    if (!registration.isActive) return;
    try {
      registration.handler(delta, origin, writer);
    } catch (error) {
      // The store already has the change. Rethrowing would look like a failed watch. All other handlers would then miss
      // the change, because a relist finds no difference.
      const details = { err: error, object: keyString(keyOf(delta.object)), change: delta.type };
      this.#log.error(details, 'a handler threw: it has missed a change');
    }
  }
}

/** The reflector of one namespace, or of all namespaces, and its progress. */
interface Partition<T extends KubeObject> {
  readonly namespace: string | undefined;
  readonly reflector: Reflector<T>;
  readonly overlay: Overlay<T>;
  readonly watchdog: Watchdog;
  replacedWatches: number;
  /** True once a list is complete, or while the kind is optional and unavailable. */
  hasSynced: boolean;
  unavailability: Unavailability | undefined;
  isDefective: boolean;
}

interface Registration<T extends KubeObject> {
  readonly handler: DeltaHandler<T>;
  /** False once the handler is removed, so that a loop that is already running does not call it. */
  isActive: boolean;
}

/** An entry of `metadata.managedFields`: a field manager, which fields it owns, and when it last wrote one. */
export interface FieldOwner {
  readonly manager?: string;
  /** `Apply` or `Update`. */
  readonly operation?: string;
  /** RFC 3339, in UTC, in whole seconds. */
  readonly time?: string;
  /** Nested: `f:` and a name for each field, down to `{}`. */
  readonly fieldsV1?: unknown;
}

const fieldOwnersOf = ({ metadata }: KubeObject): readonly FieldOwner[] | undefined =>
  'managedFields' in metadata ? (metadata.managedFields as readonly FieldOwner[]) : undefined;
