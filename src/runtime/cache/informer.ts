import { type ApiError, type Client, isForbidden, type WatchEvent } from '../client/index.ts';
import {
  isReadable,
  type Kind,
  type KubeObject,
  keyOf,
  keyString,
  resourceName,
  UnreadableObjectError,
  unreadableMembersOf,
} from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import { deepFreeze } from './deep-freeze.ts';
import type { IndexFunction } from './object-index.ts';
import {
  Reflector,
  type ReflectorOptions,
  type ReflectorProgress,
  type ReflectorTarget,
  type ReplaceWatchOptions,
  type WatchReplacement,
} from './reflector.ts';
import { compareResourceVersions } from './resource-version.ts';
import { Scope, type ScopeOptions } from './scope.ts';
import { share } from './sharing.ts';
import { type Delta, type ReadonlyStore, Store } from './store.ts';

/** Where a change was observed: in a list (the first, or a relist that found a missed change) or in a watch. */
export type DeltaOrigin = 'list' | 'watch';

/** Called for every change, in order, after the store has applied it. Synchronous. If it throws, it misses that change. */
export type DeltaHandler<T extends KubeObject> = (delta: Delta<T>, origin: DeltaOrigin) => void;

/** The members of an informer that do not depend on its objects' type. */
export type AnyInformer = Pick<
  Informer<KubeObject>,
  | 'kind'
  | 'namespaces'
  | 'store'
  | 'run'
  | 'observe'
  | 'synced'
  | 'hasSynced'
  | 'hasReached'
  | 'coverage'
  | 'replaceWatch'
  | 'isDefective'
  | 'unavailableForMs'
  | 'missingPermission'
  | 'failingForMs'
>;

/**
 * Observes the progress of a cache, after its handlers. `namespace` is undefined unless the informer is limited to some.
 *
 * An error of `progressed` or `listed` counts as a failed watch or list. An error of `reset` is only logged.
 */
export interface CacheObserver {
  /** The store may hold a newer resourceVersion. */
  readonly progressed: (namespace: string | undefined) => void;
  /**
   * The store holds a complete list. An object that was created and deleted since the previous watch caused no event.
   *
   * @param startedAtMs when the list was requested, by `performance.now`.
   */
  readonly listed: (namespace: string | undefined, startedAtMs: number) => void;
  /**
   * The cache may never reach resourceVersions of earlier responses. Causes: etcd was restored from a backup, the informer stopped, or the
   * kind is unavailable and optional or was never listed. `namespace` is undefined if all namespaces of the informer are affected.
   */
  readonly reset: (namespace: string | undefined) => void;
}

/**
 * Whether an informer observes a write.
 *
 * - `watched`: the watch will deliver it. The object is in scope, or the store holds it and will see it leave the scope.
 * - `unlisted`: only the next list shows what was written. The object is in scope, but the informer does not run, has not listed, or the
 *   optional kind is unavailable.
 * - `outOfScope`: neither.
 */
export type Coverage = 'watched' | 'unlisted' | 'outOfScope';

/** What an informer has done so far, for metrics. Of several namespaces, their sums and the longest time. */
export interface CacheStatistics {
  readonly objects: number;
  /** Objects of which a member cannot be read, because it is nested too deep. */
  readonly unreadableObjects: number;
  /** Complete lists. Each after the first is a relist. */
  readonly lists: number;
  readonly failedLists: number;
  readonly failedWatches: number;
  /**
   * For how long the server has not shown that the cache is current; see {@link ReflectorProgress}. Undefined while it does not run, and
   * while an optional kind is unavailable.
   */
  readonly unconfirmedForMs: number | undefined;
}

/** The kind is unavailable to an informer: the server forbids to list or watch it (403), or does not serve it (404). */
export interface Unavailability {
  readonly verb: 'list' | 'watch';
  /** Undefined: all namespaces, or a cluster-scoped kind. */
  readonly namespace: string | undefined;
  readonly error: ApiError;
  /** When the server first and last said so, by `performance.now`, with no other response in between. */
  readonly sinceMs: number;
  readonly lastMs: number;
}

/** Which objects an informer holds, and in which form. */
export interface InformerOptions<T extends KubeObject> extends ScopeOptions, ReflectorOptions {
  /**
   * Drops unused fields of an object before it is stored. May change its argument and return it, but must keep the name,
   * namespace, uid and resourceVersion. If it throws, the whole object is stored.
   */
  readonly transform?: (object: T) => T;
  /** Keep `metadata.managedFields`, which are often half of an object. Default false. */
  readonly keepManagedFields?: boolean;
  /** Deep-freeze stored objects, so that a change throws. Costs time; meant for tests. Default false. */
  readonly freeze?: boolean;
  /**
   * The kind may be unavailable. Meanwhile the informer counts as synced. It keeps the
   * objects that it has (none, if it was never listed), and retries at least once a minute. Default false: the informer syncs when the
   * kind can be listed. If it is unavailable later, the manager is not ready, and keys wait up to five minutes for their writes.
   */
  readonly optional?: boolean;
  /**
   * Whether the manager waits for the first list before it starts a controller that watches the kind, and is not ready
   * while the cache is stale. If false, the controller begins with the objects that have arrived; each later one enqueues
   * its key. Default true.
   */
  readonly delaysStart?: boolean;
}

/**
 * The store of a kind, and its reflectors: one, or one per namespace that it is limited to (a partition). Shared by everyone who watches
 * the kind.
 */
export class Informer<T extends KubeObject> {
  readonly kind: Kind<T>;
  /** The namespaces that it is limited to. Undefined: all. */
  readonly namespaces: readonly string[] | undefined;
  readonly #options: InformerOptions<T>;
  readonly #store: Store<T>;
  readonly #scope: Scope;
  readonly #log: Logger;
  readonly #partitions: ReadonlyMap<string, Partition<T>>;
  /** Copied on write: a running loop iterates over an unchanged list. */
  #handlers: readonly Registration<T>[] = [];
  #observers: readonly CacheObserver[] = [];
  readonly #synced = Promise.withResolvers<void>();
  #unsynced: number;
  #isRunning = false;
  /** The managedFields of the objects that a watch has delivered and no handler has seen. Undefined: nobody asks for them. */
  #fieldOwners: Map<KubeObject, readonly FieldOwner[]> | undefined;
  /** The last prepared object. A new object that has no earlier version shares equal parts with it. */
  #shareReference: T | undefined;

  /** @throws RangeError for an empty list of namespaces. */
  constructor(options: { readonly client: Client; readonly kind: Kind<T>; readonly log: Logger } & InformerOptions<T>) {
    const { kind, log, namespaces } = options;
    if (namespaces?.length === 0)
      throw new RangeError(
        `namespaces of ${resourceName(kind)} must not be empty, is []: leave it out for all namespaces`,
      );
    this.kind = kind;
    this.namespaces = namespaces;
    this.#options = options;
    this.#scope = new Scope(options);
    this.#log = log.child({ resource: resourceName(kind) });
    this.#store = new Store<T>({
      kind,
      indexFailed: (error, object, index) => {
        // The object was logged when it arrived.
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

  /** Whether each partition has been listed once, or its optional kind is unavailable: the store may be empty. */
  get hasSynced(): boolean {
    return this.#unsynced === 0;
  }

  /**
   * Whether a list or watch failed on a programming error: the store is stale until a list or an event has been processed
   * without an error.
   */
  get isDefective(): boolean {
    return [...this.#partitions.values()].some((partition) => partition.isDefective);
  }

  /** Collected on each call: not for the hot path. */
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
      unconfirmedForMs: confirmed.length === 0 ? undefined : performance.now() - Math.min(...confirmed),
    };
  }

  /**
   * For how long lists and watches have failed without a success (in the namespace where it is longest), in milliseconds:
   * the store may be stale. 0 while an optional kind is unavailable.
   */
  failingForMs(): number {
    const since = this.#needed().map(({ reflector }) => reflector.progress.failingSinceMs ?? Number.POSITIVE_INFINITY);
    return Math.max(0, performance.now() - Math.min(...since));
  }

  #needed(): readonly Partition<T>[] {
    return [...this.#partitions.values()].filter(({ unavailability }) => !(this.#options.optional && unavailability));
  }

  /** Resolves once each partition has been listed, or its optional kind is unavailable: the store may be empty. */
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
    for (const object of this.#store.list()) this.#notify(registration, { type: 'added', object }, 'list');
    this.#handlers = [...this.#handlers, registration];
    return () => {
      registration.isActive = false;
      this.#handlers = this.#handlers.filter((other) => other !== registration);
    };
  }

  /**
   * Remembers the `managedFields` of each object that a watch delivers, until the handlers have been called.
   *
   * @returns a function for handlers: those of a delta's object.
   */
  trackFieldOwners(): (object: KubeObject) => readonly FieldOwner[] {
    this.#fieldOwners ??= new Map();
    return (object) => this.#fieldOwners?.get(object) ?? [];
  }

  /**
   * Adds an observer.
   *
   * @returns a function that removes the observer.
   */
  observe(observer: CacheObserver): () => void {
    this.#observers = [...this.#observers, observer];
    return () => {
      this.#observers = this.#observers.filter((other) => other !== observer);
    };
  }

  /**
   * Replaces an open watch that does not deliver expected events; see {@link Reflector.replaceWatch}.
   *
   * @param namespace whose watch, if the informer is limited to namespaces.
   */
  replaceWatch(namespace: string | undefined, options: ReplaceWatchOptions): WatchReplacement {
    return this.#partitions.get(namespace ?? '')?.reflector.replaceWatch(options) ?? 'noWatch';
  }

  /** For how long the kind has been unavailable (in this namespace, if the informer is limited to some), in milliseconds. */
  unavailableForMs(namespace?: string): number {
    const { sinceMs } = this.#partitions.get(namespace ?? '')?.unavailability ?? {};
    return sinceMs === undefined ? 0 : performance.now() - sinceMs;
  }

  /** Whether the informer observes a write that resulted in this object. */
  coverage(object: KubeObject): Coverage {
    const isInScope = this.#scope.covers(object) || this.#store.get(object.metadata) !== undefined;
    if (!isInScope) return 'outOfScope';
    const partition = this.#partitions.get(this.namespaces === undefined ? '' : (object.metadata.namespace ?? ''));
    const isListed = this.#isRunning && partition?.resourceVersion !== undefined;
    return isListed && !(this.#options.optional && partition.unavailability !== undefined) ? 'watched' : 'unlisted';
  }

  /**
   * Whether the store holds everything up to this resourceVersion.
   *
   * @param namespace only this one, if the informer is limited to namespaces.
   */
  hasReached(resourceVersion: string, namespace?: string): boolean {
    if (this.namespaces === undefined) return hasReached(this.#partitions.get(''), resourceVersion);
    if (namespace !== undefined) return hasReached(this.#partitions.get(namespace), resourceVersion);
    for (const partition of this.#partitions.values()) if (!hasReached(partition, resourceVersion)) return false;
    return true;
  }

  /**
   * Runs until the signal is aborted. A second run continues where the first one stopped.
   *
   * @throws Error if it runs already.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#isRunning) throw new Error(`the informer of ${resourceName(this.kind)} runs already`);
    this.#isRunning = true;
    try {
      await Promise.all([...this.#partitions.values()].map(({ reflector }) => reflector.run(signal)));
    } finally {
      this.#isRunning = false;
      this.#reset(undefined);
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
      apply: (events) => {
        this.#apply(partition, events);
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
    const reflector = new Reflector({
      client,
      kind: this.kind,
      selection,
      target,
      log: namespace === undefined ? options.log : options.log.child({ namespace }),
      ...(listing !== undefined && { listing }),
      ...(watchTimeoutSeconds !== undefined && { watchTimeoutSeconds }),
      ...(backoff !== undefined && { backoff }),
    });
    const partition: Partition<T> = {
      namespace,
      reflector,
      resourceVersion: undefined,
      hasSynced: false,
      unavailability: undefined,
      isDefective: false,
    };
    return partition;
  }

  #prepare(object: T, origin: DeltaOrigin): T {
    const fieldOwners = this.#fieldOwners === undefined || origin === 'list' ? undefined : fieldOwnersOf(object);
    const whole = this.#options.keepManagedFields ? object : withoutManagedFields(object);
    if (!isReadable(whole)) return this.#unreadable(whole);
    const small = this.#transformed(whole);
    const known = this.#store.get(small.metadata);
    const prepared = share(small, known !== undefined && isReadable(known) ? known : this.#shareReference);
    this.#shareReference = prepared;
    if (fieldOwners !== undefined) this.#fieldOwners?.set(prepared, fieldOwners);
    return this.#options.freeze ? deepFreeze(prepared) : prepared;
  }

  /** Returns an object as it is: transforming, sharing and freezing it would read the unreadable members. */
  #unreadable(object: T): T {
    // Items of lists of built-in kinds have none, and the error of a reader names it.
    if (object.kind === undefined) Object.assign(object, { kind: this.kind.kind });
    if (this.#store.get(object.metadata)?.metadata.resourceVersion !== object.metadata.resourceVersion) {
      const details = { object: keyString(keyOf(object)), members: unreadableMembersOf(object) };
      this.#log.warn(details, 'an object cannot be read whole: its cache entry lacks these members');
    }
    return object;
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
    const { namespace, resourceVersion: last } = partition;
    const wentBack = last !== undefined && compareResourceVersions(resourceVersion, last) < 0;
    const handlers = this.#handlers;
    const deltas = this.#store.replace(objects, {
      ...(namespace !== undefined && { namespace }),
      trustVersions: !wentBack,
    });
    partition.resourceVersion = resourceVersion;
    this.#markSynced(partition);
    for (const delta of deltas) this.#emit(handlers, delta, 'list');
    if (wentBack) this.#reset(namespace);
    for (const { listed } of this.#observers) listed(namespace, startedAtMs);
    this.#notifyProgressed(namespace);
    if (this.hasSynced) this.#synced.resolve();
  }

  #setUnavailable(partition: Partition<T>, error: ApiError, verb: 'list' | 'watch'): void {
    const lastMs = performance.now();
    const before = partition.unavailability;
    const sinceMs = before?.error.code === error.code ? before.sinceMs : lastMs;
    partition.unavailability = { verb, namespace: partition.namespace, error, sinceMs, lastMs };
    // A kind that is not `optional` and was listed is expected to be available again: observers keep waiting for a while, as after a broken watch.
    if (this.#options.optional || !partition.hasSynced) this.#reset(partition.namespace);
    if (!this.#options.optional) return;
    this.#markSynced(partition);
    if (this.hasSynced) this.#synced.resolve();
  }

  #markSynced(partition: Partition<T>): void {
    if (partition.hasSynced) return;
    partition.hasSynced = true;
    this.#unsynced -= 1;
  }

  #apply(partition: Partition<T>, events: readonly WatchEvent<T>[]): void {
    for (const event of events) {
      partition.resourceVersion = event.object.metadata.resourceVersion;
      if (event.type === 'DELETED') this.#emit(this.#handlers, this.#store.delete(event.object), 'watch');
      else if (event.type !== 'BOOKMARK') this.#set(event.object);
    }
    // Not `clear`: V8 links the old table of a cleared Map to the new one. A table that was promoted to the old generation would keep the
    // managedFields of all later batches alive until the next major collection.
    if (this.#fieldOwners !== undefined && this.#fieldOwners.size > 0) this.#fieldOwners = new Map();
    // All of this is synchronous: a key that a handler has enqueued is not dequeued before its minimums are removed.
    this.#notifyProgressed(partition.namespace);
  }

  #set(object: T): void {
    const previous = this.#store.get(object.metadata);
    // The DELETED event was missed. Emit the deletion, so that no handler mistakes the new object for the old one.
    if (previous !== undefined && previous.metadata.uid !== object.metadata.uid) {
      this.#emit(this.#handlers, this.#store.delete(previous), 'watch');
    }
    this.#emit(this.#handlers, this.#store.set(object), 'watch');
  }

  #emit(handlers: readonly Registration<T>[], delta: Delta<T> | undefined, origin: DeltaOrigin): void {
    if (delta === undefined) return;
    for (const registration of handlers) this.#notify(registration, delta, origin);
  }

  #notify(registration: Registration<T>, delta: Delta<T>, origin: DeltaOrigin): void {
    if (!registration.isActive) return;
    try {
      registration.handler(delta, origin);
    } catch (error) {
      // The store already has the change. Rethrowing would look like a failed watch, and all other handlers would miss the
      // change, since a relist finds no difference.
      const details = { err: error, object: keyString(keyOf(delta.object)), change: delta.type };
      this.#log.error(details, 'a handler threw: it has missed a change');
    }
  }

  /** Calls every observer, even if one throws: an error would end the reflector, or fail the run when it stops. */
  #reset(namespace: string | undefined): void {
    for (const { reset } of this.#observers) {
      try {
        reset(namespace);
      } catch (error) {
        this.#log.error({ err: error }, 'an observer threw: it has missed a reset of the cache');
      }
    }
  }

  #notifyProgressed(namespace: string | undefined): void {
    for (const { progressed } of this.#observers) progressed(namespace);
  }
}

/** The reflector of one namespace, or of all, and its progress. */
interface Partition<T extends KubeObject> {
  readonly namespace: string | undefined;
  readonly reflector: Reflector<T>;
  resourceVersion: string | undefined;
  /** True once a list is complete, or if the kind is optional and unavailable. */
  hasSynced: boolean;
  unavailability: Unavailability | undefined;
  isDefective: boolean;
}

interface Registration<T extends KubeObject> {
  readonly handler: DeltaHandler<T>;
  /** False once the handler is removed: a loop that runs meanwhile must not call it. */
  isActive: boolean;
}

function hasReached<T extends KubeObject>(partition: Partition<T> | undefined, resourceVersion: string): boolean {
  const reached = partition?.resourceVersion;
  return reached !== undefined && compareResourceVersions(reached, resourceVersion) >= 0;
}

/** An entry of `metadata.managedFields`: a field manager, which fields it owns, and when it last wrote one. */
export interface FieldOwner {
  readonly manager?: string;
  /** RFC 3339, in UTC, in whole seconds. */
  readonly time?: string;
  /** Nested: `f:` and a name for each field, down to `{}`. */
  readonly fieldsV1?: unknown;
}

const fieldOwnersOf = ({ metadata }: KubeObject): readonly FieldOwner[] | undefined =>
  'managedFields' in metadata ? (metadata.managedFields as readonly FieldOwner[]) : undefined;

/** Copies the metadata: `delete` would make V8 store the remaining members as a hash table. */
function withoutManagedFields<T extends KubeObject>(object: T): T {
  if (!('managedFields' in object.metadata)) return object;
  const { managedFields: _, ...metadata } = object.metadata;
  return Object.assign(object, { metadata });
}
