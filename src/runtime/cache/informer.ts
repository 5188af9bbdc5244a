import { type ApiError, type Client, isForbidden, type WatchEvent } from '../client/index.ts';
import { type Kind, type KubeObject, keyOf, keyString, resourceName } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import { deepFreeze } from './deep-freeze.ts';
import type { IndexFunction } from './object-index.ts';
import { Reflector, type ReflectorOptions, type ReflectorTarget, type ReplaceWatchOptions } from './reflector.ts';
import { compareResourceVersions } from './resource-version.ts';
import { Scope, type ScopeOptions } from './scope.ts';
import { share } from './sharing.ts';
import { type Delta, type ReadonlyStore, Store } from './store.ts';

/** How a change was learnt: from a list (the first, or a new one that found what was missed), or as it happened. */
export type DeltaOrigin = 'list' | 'watch';

/** Is told of every change, in order, after the store has it. Must not wait; one that throws has missed the change. */
export type DeltaHandler<T extends KubeObject> = (delta: Delta<T>, origin: DeltaOrigin) => void;

/** How far the cache of some kind has come: what there is to know of an informer without knowing its objects' type. */
export type CacheProgress = Pick<
  Informer<KubeObject>,
  'kind' | 'namespaces' | 'store' | 'covers' | 'hasReached' | 'observe' | 'replaceWatch'
>;

/** Is told how a cache comes on, after its handlers. `namespace` is undefined unless the informer is limited to some. */
export interface CacheObserver {
  /** The store may hold a newer resourceVersion. */
  readonly progressed: (namespace: string | undefined) => void;
  /**
   * The store holds a whole list: what came and went since the watch before it, nobody was told of.
   *
   * @param startedAtMs when the list was asked for, by `performance.now`.
   */
  readonly listed: (namespace: string | undefined, startedAtMs: number) => void;
  /**
   * resourceVersions that were handed out may never be reached: the server has gone back to an older state (its etcd was
   * restored), refuses the kind, or the informer has stopped. `namespace` is undefined for all that the informer has.
   */
  readonly reset: (namespace: string | undefined) => void;
}

/** Which permission an informer lacks. */
export interface MissingPermission {
  readonly verb: 'list' | 'watch';
  /** Undefined: in all namespaces, or of a cluster-scoped kind. */
  readonly namespace: string | undefined;
  readonly error: ApiError;
  /** When the server first refused, and when last, by `performance.now`; nothing else came in between. */
  readonly sinceMs: number;
  readonly lastMs: number;
}

/** What an informer holds of its kind, and in which form. */
export interface InformerOptions<T extends KubeObject> extends ScopeOptions, ReflectorOptions {
  /**
   * Makes an object smaller before it is stored: what nobody reads need not be kept. May change and return the object
   * that it is given, whose name, namespace, uid and resourceVersion must stay. If it throws, the object is stored whole.
   */
  readonly transform?: (object: T) => T;
  /** Keep `metadata.managedFields`, most often half of an object. Default false: they are dropped. */
  readonly keepManagedFields?: boolean;
  /** Freeze what is stored, all the way down, so that a change throws: for tests, as it takes time. Default false. */
  readonly freeze?: boolean;
  /**
   * The kind may be missing: while the server does not serve it, or does not let it be listed, the informer counts as
   * synced and holds nothing. When the kind comes, so do its objects, within a minute. Default false: it is waited for.
   */
  readonly optional?: boolean;
}

/** One kind's reflector and store, shared by all who watch the kind. With several namespaces it has a reflector for each. */
export class Informer<T extends KubeObject> {
  readonly kind: Kind<T>;
  /** Those that it is limited to; undefined: all. */
  readonly namespaces: readonly string[] | undefined;
  readonly #options: InformerOptions<T>;
  readonly #store: Store<T>;
  readonly #scope: Scope;
  readonly #log: Logger;
  readonly #parts: ReadonlyMap<string, Part<T>>;
  /** Replaced, never changed: a loop over it goes on with those whom it began with. */
  #handlers: readonly Registration<T>[] = [];
  #observers: readonly CacheObserver[] = [];
  readonly #synced = Promise.withResolvers<void>();
  #unsynced: number;
  #running = false;
  /** The last object that was stored: the next one is like it in much. */
  #example: T | undefined;

  /** @throws RangeError for an empty list of namespaces: it would never have anything to sync. */
  constructor(options: { readonly client: Client; readonly kind: Kind<T>; readonly log: Logger } & InformerOptions<T>) {
    const { kind, log, namespaces } = options;
    if (namespaces?.length === 0) throw new RangeError(`${resourceName(kind)}: namespaces is []; leave it out for all`);
    this.kind = kind;
    this.namespaces = namespaces;
    this.#options = options;
    this.#scope = new Scope(options);
    this.#log = log.child({ resource: resourceName(kind) });
    this.#store = new Store<T>((error, object, index) => {
      const details = { err: error, object: keyString(keyOf(object)), index };
      this.#log.error(details, 'an index function threw: the index does not find the object');
    });
    const parts = new Set(namespaces ?? [undefined]);
    this.#parts = new Map([...parts].map((namespace) => [namespace ?? '', this.#part(namespace, options)]));
    this.#unsynced = this.#parts.size;
  }

  get store(): ReadonlyStore<T> {
    return this.#store;
  }

  /** Whether the store has held a whole list. */
  get hasSynced(): boolean {
    return this.#unsynced === 0;
  }

  /** Whether the last request failed because of a programming error: the store is stale until a retry succeeds. */
  get isDefective(): boolean {
    return [...this.#parts.values()].some((part) => part.isDefective);
  }

  /** Resolves once the store has held a whole list. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  /**
   * What keeps it from being synced: a permission that the server has denied each time that it was asked, the last time
   * so many milliseconds after the first or later.
   */
  missingPermission(forMs: number): MissingPermission | undefined {
    const refusals = [...this.#parts.values()].map(({ synced, refusal }) => (synced ? undefined : refusal));
    return refusals.find(
      (refusal) => refusal && isForbidden(refusal.error) && refusal.lastMs - refusal.sinceMs >= forMs,
    );
  }

  /** @throws RangeError if the name is taken. */
  addIndex(name: string, values: IndexFunction<T>): void {
    this.#store.addIndex(name, values);
  }

  /**
   * Adds a handler, which sees every object that is stored already as `added`, at once; then whatever changes.
   *
   * @returns removes it again.
   */
  addHandler(handler: DeltaHandler<T>): () => void {
    const registration: Registration<T> = { handler, active: true };
    for (const object of this.#store.list()) this.#tell(registration, { type: 'added', object }, 'list');
    this.#handlers = [...this.#handlers, registration];
    return () => {
      registration.active = false;
      this.#handlers = this.#handlers.filter((other) => other !== registration);
    };
  }

  /**
   * Adds an observer.
   *
   * @returns removes it again.
   */
  observe(observer: CacheObserver): () => void {
    this.#observers = [...this.#observers, observer];
    return () => {
      this.#observers = this.#observers.filter((other) => other !== observer);
    };
  }

  /**
   * Replaces a watch that does not bring what it should; see {@link Reflector.replaceWatch}.
   *
   * @param namespace of an informer that is limited to some.
   */
  replaceWatch(namespace: string | undefined, options: ReplaceWatchOptions): boolean {
    return this.#parts.get(namespace ?? '')?.reflector.replaceWatch(options) ?? false;
  }

  /**
   * Whether the watch tells of a write that left an object like this: it is in the scope, or the store still holds it
   * and will hear that it has left. False unless the informer runs, has listed, and is not refused.
   */
  covers(object: KubeObject): boolean {
    const part = this.#parts.get(this.namespaces === undefined ? '' : (object.metadata.namespace ?? ''));
    if (!this.#running || part?.resourceVersion === undefined || part.refusal !== undefined) return false;
    return this.#scope.covers(object) || this.#store.get(object.metadata) !== undefined;
  }

  /**
   * Whether the store holds everything up to this resourceVersion.
   *
   * @param namespace asks for this one alone, of an informer that is limited to some.
   */
  hasReached(resourceVersion: string, namespace?: string): boolean {
    if (this.namespaces === undefined) return hasReached(this.#parts.get(''), resourceVersion);
    if (namespace !== undefined) return hasReached(this.#parts.get(namespace), resourceVersion);
    for (const part of this.#parts.values()) if (!hasReached(part, resourceVersion)) return false;
    return true;
  }

  /**
   * Runs until the signal is aborted; never rejects. Run again, it goes on where it was.
   *
   * @throws Error if it runs already.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#running) throw new Error(`the informer of ${resourceName(this.kind)} runs already`);
    this.#running = true;
    try {
      await Promise.all([...this.#parts.values()].map(({ reflector }) => reflector.run(signal)));
    } finally {
      this.#running = false;
      for (const { reset } of this.#observers) reset(undefined);
    }
  }

  #part(
    namespace: string | undefined,
    options: InformerOptions<T> & { readonly client: Client; readonly log: Logger },
  ): Part<T> {
    const { client, labelSelector, fieldSelector, listing, watchTimeoutSeconds, backoff } = options;
    const target: ReflectorTarget<T> = {
      prepare: (object) => this.#prepare(object),
      replace: (objects, resourceVersion, startedAtMs) => this.#replace(part, objects, resourceVersion, startedAtMs),
      apply: (events) => this.#apply(part, events),
      refused: (error, verb) => this.#refused(part, error, verb),
      notRefused: () => {
        part.refusal = undefined;
        part.isDefective = false;
      },
      defective: () => {
        part.isDefective = true;
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
    const part: Part<T> = {
      namespace,
      reflector,
      resourceVersion: undefined,
      synced: false,
      refusal: undefined,
      isDefective: false,
    };
    return part;
  }

  #prepare(object: T): T {
    const whole = this.#options.keepManagedFields ? object : withoutManagedFields(object);
    const small = this.#transformed(whole);
    const reference = this.#store.get(small.metadata) ?? this.#example;
    const prepared = share(small, reference);
    this.#example = prepared;
    return this.#options.freeze ? deepFreeze(prepared) : prepared;
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

  #replace(part: Part<T>, objects: readonly T[], resourceVersion: string, startedAtMs: number): void {
    const { namespace, resourceVersion: last } = part;
    const wentBack = last !== undefined && compareResourceVersions(resourceVersion, last) < 0;
    const handlers = this.#handlers;
    const deltas = this.#store.replace(objects, {
      ...(namespace !== undefined && { namespace }),
      trustVersions: !wentBack,
    });
    part.resourceVersion = resourceVersion;
    this.#countSynced(part);
    for (const delta of deltas) this.#emit(handlers, delta, 'list');
    for (const { reset, listed } of this.#observers) {
      if (wentBack) reset(namespace);
      else listed(namespace, startedAtMs);
    }
    this.#advanced(namespace);
    if (this.hasSynced) this.#synced.resolve();
  }

  #refused(part: Part<T>, error: ApiError, verb: 'list' | 'watch'): void {
    const lastMs = performance.now();
    const sinceMs = part.refusal?.error.code === error.code ? part.refusal.sinceMs : lastMs;
    part.refusal = { verb, namespace: part.namespace, error, sinceMs, lastMs };
    for (const { reset } of this.#observers) reset(part.namespace);
    if (!this.#options.optional) return;
    this.#countSynced(part);
    if (this.hasSynced) this.#synced.resolve();
  }

  #countSynced(part: Part<T>): void {
    if (part.synced) return;
    part.synced = true;
    this.#unsynced -= 1;
  }

  #apply(part: Part<T>, events: readonly WatchEvent<T>[]): void {
    for (const event of events) {
      part.resourceVersion = event.object.metadata.resourceVersion;
      if (event.type === 'DELETED') this.#emit(this.#handlers, this.#store.delete(event.object), 'watch');
      else if (event.type !== 'BOOKMARK') this.#set(event.object);
    }
    this.#advanced(part.namespace);
  }

  #set(object: T): void {
    const previous = this.#store.get(object.metadata);
    // Its deletion was never told: nobody may take the new one for the old.
    if (previous !== undefined && previous.metadata.uid !== object.metadata.uid) {
      this.#emit(this.#handlers, this.#store.delete(previous), 'watch');
    }
    this.#emit(this.#handlers, this.#store.set(object), 'watch');
  }

  #emit(handlers: readonly Registration<T>[], delta: Delta<T> | undefined, origin: DeltaOrigin): void {
    if (delta === undefined) return;
    for (const registration of handlers) this.#tell(registration, delta, origin);
  }

  #tell(registration: Registration<T>, delta: Delta<T>, origin: DeltaOrigin): void {
    if (!registration.active) return;
    try {
      registration.handler(delta, origin);
    } catch (error) {
      // The store has the change: thrown on, the error would be taken for the watch's, and every other handler
      // would miss what follows, for a new list finds no difference any more.
      const details = { err: error, object: keyString(keyOf(delta.object)), change: delta.type };
      this.#log.error(details, 'a handler threw: it has missed a change');
    }
  }

  #advanced(namespace: string | undefined): void {
    for (const { progressed } of this.#observers) progressed(namespace);
  }
}

/** The reflector of one namespace, or of all, and how far it has come. */
interface Part<T extends KubeObject> {
  readonly namespace: string | undefined;
  readonly reflector: Reflector<T>;
  resourceVersion: string | undefined;
  /** It has had a whole list, or there is none to be had. */
  synced: boolean;
  /** Why the server did not let it list or watch, if it did not the last time that it was asked. */
  refusal: MissingPermission | undefined;
  isDefective: boolean;
}

interface Registration<T extends KubeObject> {
  readonly handler: DeltaHandler<T>;
  active: boolean;
}

function hasReached<T extends KubeObject>(part: Part<T> | undefined, resourceVersion: string): boolean {
  const reached = part?.resourceVersion;
  return reached !== undefined && compareResourceVersions(reached, resourceVersion) >= 0;
}

/** A copy of the metadata: to delete a member in its middle would make V8 keep the rest as a hash table. */
function withoutManagedFields<T extends KubeObject>(object: T): T {
  if (!('managedFields' in object.metadata)) return object;
  const { managedFields: _, ...metadata } = object.metadata;
  return Object.assign(object, { metadata });
}
