import type { AnyInformer } from '../cache/index.ts';
import {
  type Client,
  type ClientRequest,
  isAlreadyExists,
  isConflict,
  isNotFound,
  isUidMismatch,
  NoResponseError,
} from '../client/index.ts';
import { type Kind, type KubeObject, keyString, type ObjectKey, resourceName } from '../kind/index.ts';
import type { AwaitedWrite, Logger, ReconcileTrace } from '../observability/index.ts';
import { type Cause, type ObservedCause, withCause } from '../queue/cause.ts';

/** A write or read by a key's reconcile that a cache has not observed yet. */
interface Minimum {
  readonly key: string;
  /** The namespace and name of the object that was written or read. */
  readonly object: string;
  readonly uid: string;
  /** Undefined for a deletion. */
  readonly version: string | undefined;
  /** When it was set, by `performance.now`. */
  readonly sinceMs: number;
  readonly isObserved: () => boolean;
}

/** A deletion that a response showed. */
interface Deletion {
  readonly uid: string | undefined;
  /**
   * When the cache has observed it. An object whose deletion was requested counts once it is terminating: a finalizer of
   * this controller may hold it for longer.
   */
  readonly observedAt: 'terminating' | 'gone';
}

/** One watch of an informer (of one namespace, or the only one), and what it has not observed. */
interface WatchMinimums {
  readonly informer: AnyInformer;
  readonly namespace: string | undefined;
  /** Oldest first. */
  readonly minimums: Set<Minimum>;
  /** Keys with a write that no event may show: they are enqueued after the next list. */
  readonly enqueueAtNextList: Set<string>;
  /** When it was last listed or reset, by `performance.now`. */
  listedOrResetAtMs: number;
  timer: NodeJS.Timeout | undefined;
  /** The minimum for which the watch was last replaced. */
  replacedFor: Minimum | undefined;
  /** The minimum for which the watch was last too young to be replaced. */
  tooYoungFor: Minimum | undefined;
}

/** A key as it was in the queue. */
interface Queued {
  /** Why it was enqueued. */
  readonly causes: readonly Cause[];
  /** Time of the earliest event that no reconcile has handled yet, by `performance.now`. */
  readonly eventAtMs?: number | undefined;
}

/** A deferred key, with why it was enqueued before and meanwhile. */
interface Deferral {
  /** By `performance.now`. */
  readonly sinceMs: number;
  causes: readonly Cause[];
  eventAtMs: number | undefined;
}

const relist: Cause = { type: 'relist' };

/** @param eventAtMs time of the earliest event that no reconcile has handled yet, by `performance.now`. */
type Enqueue = (key: string, cause: Cause, eventAtMs: number | undefined) => void;

/** Options of {@link ReadYourWrites}. */
export interface ReadYourWritesOptions {
  /** Adds a key to the queue. */
  readonly enqueue: Enqueue;
  readonly log: Logger;
  /**
   * How long a write may stay unobserved before its watch is replaced; if the kind is unavailable, the key waits 30 times as long.
   * Default 10,000.
   */
  readonly timeoutMs?: number | undefined;
  /** Called for each watch that is replaced. */
  readonly watchReplaced?: (resource: string) => void;
}

/**
 * Keeps a reconcile from reading a cache that has not observed what an earlier reconcile of the same key wrote. Each write sets a
 * minimum. A key with a minimum is deferred when it is dequeued. It waits until the caches have observed all its minimums, and all its
 * requests have a response.
 *
 * **What sets a minimum**
 * - The response to a write sets the resourceVersion that the cache must reach. Only objects that an informer watches count.
 * - A deletion has no resourceVersion. It counts as observed when the cache shows the object as terminating, or holds no object with
 *   that uid. After a write that removes the last finalizer, only the latter counts.
 * - A `get` from the API server sets one too, because it may show a write whose response was lost.
 * - After a Conflict, an AlreadyExists, or an update without a response, this class reads the object: the watch may have died
 *   silently.
 *
 * **What removes it**
 * - The cache observes it, or a list began after the write.
 * - A reset: the cache may never reach the version.
 * - The kind is unavailable for 30 times `timeoutMs` (5 minutes, as the expectations of Kubernetes' own controllers).
 *
 * **What bounds the wait**
 * - If a minimum is not observed within `timeoutMs`, the watch is replaced by one that resumes, then by one that lists.
 * - Therefore a key waits for a bounded time, unless list and watch fail with errors other than that.
 *
 * **What enqueues the key**
 * - The last minimum of a deferred key is removed, and no request is in flight.
 * - A list or a reset of a watch on which the key has a minimum; also a list while a write of the key is in flight. An object that
 *   was created and deleted between two lists causes no event.
 * - A list, if the key made a write that the cache could not observe, or whose minimum was given up.
 */
export class ReadYourWrites {
  /** By resource: the versions of a kind share their objects and resourceVersions. */
  readonly #watches = new Map<string, WatchMinimums[]>();
  readonly #enqueue: Enqueue;
  readonly #log: Logger;
  readonly #timeoutMs: number;
  readonly #watchReplaced: (resource: string) => void;
  /** By key: how many of its minimums are not observed. */
  readonly #unobserved = new Map<string, number>();
  /** By key: how many of its requests have no response yet. */
  readonly #inFlight = new Map<string, number>();
  /** Keys that were dequeued too early. */
  readonly #deferred = new Map<string, Deferral>();
  readonly #observerRemovers: (() => void)[] = [];

  /** @param informers the informers that the controller reads. Writes to other kinds set no minimum. */
  constructor(informers: readonly AnyInformer[], options: ReadYourWritesOptions) {
    this.#enqueue = options.enqueue;
    this.#log = options.log;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#watchReplaced = options.watchReplaced ?? (() => {});
    for (const informer of new Set(informers)) this.#attach(informer);
  }

  /** Detaches from the informers: enqueues no more keys, and later responses set no minimum. */
  detach(): void {
    this.#watches.clear();
    this.#deferred.clear();
    for (const remove of this.#observerRemovers.splice(0)) remove();
  }

  /**
   * Defers a key if the caches have not observed its writes, or a request of a failed reconcile has no response yet. The key is
   * enqueued when they have. Returns whether it was deferred.
   */
  defer(key: string, queued?: Queued): boolean {
    if (!this.#unobserved.has(key) && !this.#inFlight.has(key)) return false;
    const { causes = [], eventAtMs } = queued ?? {};
    const deferral = this.#deferred.get(key);
    // A later event does not restart the wait.
    if (deferral === undefined) this.#deferred.set(key, { sinceMs: performance.now(), causes, eventAtMs });
    else {
      deferral.causes = causes.reduce(withCause, deferral.causes);
      deferral.eventAtMs ??= eventAtMs;
    }
    return true;
  }

  /** How many keys are deferred, and the longest time that one has been, in milliseconds. For metrics: visits every deferred key. */
  deferrals(): { readonly keys: number; readonly longestMs: number } {
    let oldestMs = Number.POSITIVE_INFINITY;
    for (const { sinceMs } of this.#deferred.values()) oldestMs = Math.min(oldestMs, sinceMs);
    const keys = this.#deferred.size;
    return { keys, longestMs: keys === 0 ? 0 : performance.now() - oldestMs };
  }

  /** Since when a key is deferred, by `performance.now`; undefined if it is not. */
  deferredSinceMs(key: string): number | undefined {
    return this.#deferred.get(key)?.sinceMs;
  }

  /** The deferred keys, each with the time since when, by `performance.now`. */
  *allDeferred(): Generator<{ readonly key: string; readonly sinceMs: number }, void> {
    for (const [key, { sinceMs }] of this.#deferred) yield { key, sinceMs };
  }

  /** The writes of a key that the caches have not observed. Searches all minimums: not for every reconcile. */
  unobserved(key: string): readonly AwaitedWrite[] {
    const watches = this.#unobserved.has(key) ? [...this.#watches.values()].flat() : [];
    return watches.flatMap(({ informer, minimums }) =>
      [...minimums]
        .filter((minimum) => minimum.key === key)
        .map(({ object, version, sinceMs }) => ({ kind: informer.kind.kind, object, version, sinceMs })),
    );
  }

  /**
   * The client for one reconcile. Its requests are aborted with the signal, set the key's minimums, and are reported to
   * the trace.
   */
  client(client: Client, key: string, signal: AbortSignal, trace?: ReconcileTrace): Client {
    return client.scoped({
      signal,
      trace,
      hook: async (request, send) => {
        const sentAtMs = performance.now();
        const uid =
          request.uid ?? (request.verb === 'delete' ? this.#knownUid(key, request) : this.#storedUid(request));
        this.#inFlight.set(key, (this.#inFlight.get(key) ?? 0) + 1);
        const traced = trace?.requested(request, sentAtMs);
        try {
          const response = await send();
          traced?.answered(undefined);
          this.#recordResponse(key, request, response, uid, sentAtMs);
          return response;
        } catch (error) {
          traced?.answered(error);
          if (request.isDryRun) throw error;
          if (showsDeletion(request, error)) {
            this.#addDeletionMinimum(key, request.kind, request.key, { uid, observedAt: 'terminating' }, sentAtMs);
          }
          if (showsStaleCache(request, error)) await this.#read(request, this.client(client, key, signal, trace));
          throw error;
        } finally {
          this.#answered(key);
        }
      },
    });
  }

  #answered(key: string): void {
    const left = (this.#inFlight.get(key) ?? 0) - 1;
    if (left > 0) {
      this.#inFlight.set(key, left);
      return;
    }
    this.#inFlight.delete(key);
    if (!this.#unobserved.has(key)) this.#enqueueDeferred(key, 'answered');
  }

  /** Enqueues the key if it is deferred. */
  #enqueueDeferred(key: string, how: ObservedCause['how'], kind?: string): void {
    const deferral = this.#deferred.get(key);
    if (deferral === undefined) return;
    this.#deferred.delete(key);
    const { sinceMs, causes, eventAtMs } = deferral;
    const [before, ...others] = causes;
    this.#enqueue(key, { type: 'observed', how, kind, deferredAtMs: sinceMs, before }, eventAtMs);
    for (const other of others) this.#enqueue(key, other, undefined);
  }

  /** Reads the object, which sets a minimum. The caller throws the write's error, so an error of the read does not matter. */
  async #read({ kind, key: object }: ClientRequest, client: Client): Promise<void> {
    if (object !== undefined && this.#watches.has(resourceName(kind))) await client.get(kind, object).catch(() => {});
  }

  #attach(informer: AnyInformer): void {
    const resource = resourceName(informer.kind);
    const watches = this.#watches.get(resource) ?? [];
    this.#watches.set(resource, watches);
    for (const namespace of informer.namespaces ?? [undefined]) {
      const minimums = new Set<Minimum>();
      const watch: WatchMinimums = {
        informer,
        namespace,
        minimums,
        enqueueAtNextList: new Set(),
        listedOrResetAtMs: 0,
        timer: undefined,
        replacedFor: undefined,
        tooYoungFor: undefined,
      };
      watches.push(watch);
      const remove = informer.observe({
        progressed: (changedNamespace) => {
          if (changedNamespace === namespace) this.#progressed(watch);
        },
        listed: (changedNamespace, startedAtMs) => {
          if (changedNamespace === namespace) this.#afterList(watch, startedAtMs);
        },
        reset: (changedNamespace) => {
          const isAffected = changedNamespace === undefined || changedNamespace === namespace;
          if (!isAffected) return;
          for (const { key } of watch.minimums) watch.enqueueAtNextList.add(key);
          // The cache may never reach the versions.
          this.#afterListOrReset(watch, (minimum) => this.#removeMinimum(watch, minimum, 'reset'));
        },
      });
      this.#observerRemovers.push(remove, () => clearTimeout(watch.timer));
    }
  }

  /** The uid that the cache shows when the request is sent. */
  #storedUid({ kind, key: object }: ClientRequest): string | undefined {
    if (object === undefined) return undefined;
    const [watch] = this.#watchesOf(kind, object.namespace);
    return watch?.informer.store.get(object)?.metadata.uid;
  }

  /** The uid for a delete request without one. The minimums come first: the store may not hold an object that the key just created. */
  #knownUid(key: string, { kind, key: object }: ClientRequest): string | undefined {
    if (object === undefined) return undefined;
    for (const { minimums, informer } of this.#watchesOf(kind, object.namespace)) {
      const name = keyString(object);
      const unobserved = [...minimums].findLast((minimum) => minimum.key === key && minimum.object === name);
      const uid = unobserved?.uid ?? informer.store.get(object)?.metadata.uid;
      if (uid !== undefined) return uid;
    }
    return undefined;
  }

  #recordResponse(
    key: string,
    request: ClientRequest,
    response: unknown,
    uid: string | undefined,
    sentAtMs: number,
  ): void {
    const { verb, kind } = request;
    if (request.isDryRun || verb === 'list') return;
    if (verb === 'deletecollection') {
      // The response holds the objects as they were before the deletion.
      for (const { metadata } of response as readonly KubeObject[]) {
        const deletion: Deletion = { uid: metadata.uid, observedAt: 'terminating' };
        this.#addDeletionMinimum(key, kind, metadata, deletion, sentAtMs);
      }
      return;
    }
    const object = response as KubeObject | undefined;
    if (object !== undefined) {
      const { metadata } = object;
      this.#addVersionMinimum(key, kind, object, sentAtMs);
      if (isDeletedByWrite(request, object)) {
        this.#addDeletionMinimum(key, kind, metadata, { uid: metadata.uid, observedAt: 'gone' }, sentAtMs);
      }
    }
    // For some kinds, the response to a finished delete is the object's last version.
    if (verb === 'delete' && object?.metadata.deletionTimestamp === undefined) {
      const deletion: Deletion = { uid: object?.metadata.uid ?? uid, observedAt: 'terminating' };
      this.#addDeletionMinimum(key, kind, request.key, deletion, sentAtMs);
    }
  }

  #addVersionMinimum(key: string, kind: Kind, object: KubeObject, sentAtMs: number): void {
    const { resourceVersion, namespace, uid } = object.metadata;
    for (const watch of this.#watchesOf(kind, namespace)) {
      const { informer } = watch;
      const coverage = informer.coverage(object);
      if (coverage === 'unlisted') watch.enqueueAtNextList.add(key);
      if (coverage !== 'watched') continue;
      const isObserved = () => informer.hasReached(resourceVersion, watch.namespace);
      const minimum = { key, object: keyString(object.metadata), uid, version: resourceVersion, isObserved };
      this.#addMinimum(watch, sentAtMs, minimum);
    }
  }

  #addDeletionMinimum(
    key: string,
    kind: Kind,
    object: ObjectKey | undefined,
    { uid, observedAt }: Deletion,
    sentAtMs: number,
  ): void {
    if (object === undefined || uid === undefined) return;
    for (const watch of this.#watchesOf(kind, object.namespace)) {
      const { informer } = watch;
      const stored = informer.store.get(object);
      const unobserved =
        stored?.metadata.uid === uid
          ? []
          : [...watch.minimums].filter((minimum) => minimum.key === key && minimum.uid === uid);
      if (unobserved.length === 0 && (stored === undefined || informer.coverage(stored) !== 'watched')) continue;
      const isObserved = () => {
        // Absence does not prove the deletion while the cache has not observed the creation.
        if (unobserved.some((minimum) => watch.minimums.has(minimum))) return false;
        const { metadata } = informer.store.get(object) ?? {};
        return metadata?.uid !== uid || (observedAt === 'terminating' && metadata.deletionTimestamp !== undefined);
      };
      this.#addMinimum(watch, sentAtMs, { key, object: keyString(object), uid, version: undefined, isObserved });
    }
  }

  #watchesOf(kind: Kind, namespace: string | undefined): readonly WatchMinimums[] {
    const watches = this.#watches.get(resourceName(kind)) ?? [];
    return watches.filter((watch) => watch.namespace === undefined || watch.namespace === namespace);
  }

  #addMinimum(watch: WatchMinimums, sentAtMs: number, minimum: Omit<Minimum, 'sinceMs'>): void {
    const { key } = minimum;
    // A list arrived while the request was in flight. If a later change has undone this write before the list, no event follows.
    if (watch.listedOrResetAtMs > sentAtMs) this.#enqueue(key, relist, undefined);
    if (minimum.isObserved()) return;
    watch.minimums.add({ ...minimum, sinceMs: performance.now() });
    this.#unobserved.set(key, (this.#unobserved.get(key) ?? 0) + 1);
    watch.timer ??= this.#startTimer(watch, this.#timeoutMs);
  }

  #progressed(watch: WatchMinimums): void {
    for (const minimum of watch.minimums) if (minimum.isObserved()) this.#removeMinimum(watch, minimum, 'observed');
  }

  #afterList(watch: WatchMinimums, startedAtMs: number): void {
    const keys = [...watch.enqueueAtNextList];
    watch.enqueueAtNextList.clear();
    this.#afterListOrReset(watch, (minimum) => {
      if (minimum.sinceMs < startedAtMs || minimum.isObserved()) this.#removeMinimum(watch, minimum, 'observed');
    });
    for (const key of keys) this.#enqueue(key, relist, undefined);
  }

  /** Enqueues each key with a minimum on the watch. A deferred key that still has a minimum stays deferred. */
  #afterListOrReset(watch: WatchMinimums, removeIfDue: (minimum: Minimum) => void): void {
    watch.listedOrResetAtMs = performance.now();
    const minimums = [...watch.minimums];
    minimums.forEach(removeIfDue);
    for (const key of new Set(minimums.map((minimum) => minimum.key))) {
      const deferral = this.#deferred.get(key);
      if (deferral === undefined) this.#enqueue(key, relist, undefined);
      else deferral.causes = withCause(deferral.causes, relist);
    }
  }

  #removeMinimum(watch: WatchMinimums, minimum: Minimum, how: Exclude<ObservedCause['how'], 'answered'>): void {
    const { key } = minimum;
    watch.minimums.delete(minimum);
    const left = (this.#unobserved.get(key) ?? 0) - 1;
    if (left > 0) {
      this.#unobserved.set(key, left);
      return;
    }
    this.#unobserved.delete(key);
    // A request in flight may set another minimum: its response enqueues the key.
    if (!this.#inFlight.has(key)) this.#enqueueDeferred(key, how, watch.informer.kind.kind);
  }

  #startTimer(watch: WatchMinimums, delayMs: number): NodeJS.Timeout {
    return setTimeout(() => this.#replaceIfOverdue(watch), delayMs).unref();
  }

  /**
   * Replaces the watch if its oldest minimum is overdue: the first time by one that resumes, then by one that lists.
   * While the kind is unavailable, drops minimums that are far overdue.
   */
  #replaceIfOverdue(watch: WatchMinimums): void {
    watch.timer = undefined;
    this.#dropExpired(watch);
    const [oldest] = watch.minimums;
    if (oldest === undefined) return;
    const { informer, namespace } = watch;
    const ageMs = performance.now() - oldest.sinceMs;
    const leftMs = this.#timeoutMs - ageMs;
    watch.timer = this.#startTimer(watch, leftMs > 0 ? leftMs : this.#timeoutMs);
    if (leftMs > 0) return;
    const wasReplaced = watch.replacedFor === oldest;
    // Another controller may have replaced the watch just now, or it was broken: leave a new watch enough time.
    let found = informer.replaceWatch(namespace, { relist: wasReplaced, openForMs: this.#timeoutMs / 2 });
    if (found === 'tooYoung') {
      // A watch is too young only once. If the next one is, too, watches end so soon that none is ever old enough.
      const isTooYoungAgain = watch.tooYoungFor === oldest;
      watch.tooYoungFor = oldest;
      if (isTooYoungAgain) found = informer.replaceWatch(namespace, { relist: true, openForMs: 0 });
    }
    if (found !== 'replaced') return;
    this.#watchReplaced(resourceName(informer.kind));
    if (wasReplaced) return;
    watch.replacedFor = oldest;
    const details = detailsOf(watch, oldest);
    this.#log.warn(details, 'the watch has not delivered our own write: replacing the watch');
  }

  #dropExpired(watch: WatchMinimums): void {
    const limitMs = this.#timeoutMs * maxTimeouts;
    if (watch.informer.unavailableForMs(watch.namespace) < limitMs) return;
    const expired = [...watch.minimums].filter(({ sinceMs }) => performance.now() - sinceMs >= limitMs);
    const [oldest] = expired;
    if (oldest === undefined) return;
    const details = detailsOf(watch, oldest);
    this.#log.warn(
      details,
      'the server forbids the watch that delivers our own write, or does not serve the kind: reconciling from a stale cache',
    );
    for (const minimum of expired) {
      watch.enqueueAtNextList.add(minimum.key);
      this.#removeMinimum(watch, minimum, 'gaveUp');
    }
  }
}

/** A minimum is dropped after this many times the timeout, if the kind has been unavailable meanwhile. */
const maxTimeouts = 30;

/** Whether the error says that no object with the request's uid, or none at all, has the name. The cache may still hold it. */
function showsDeletion({ verb, key, uid, subresource, resourceVersion }: ClientRequest, error: unknown): boolean {
  if (verb === 'delete' && isConflict(error)) return uid !== undefined && resourceVersion === undefined;
  // A kind that is not served has no object. A kind without the subresource has one, and a get may ask for an old version.
  const isAboutObject = subresource === undefined && (verb !== 'get' || resourceVersion === undefined);
  return isAboutObject && isNotFound(error) && error.status.details?.name === key?.name;
}

/**
 * Whether a write has deleted the object, because it removed the last finalizer of an object that was being deleted. The response is then
 * the object as it was written, with the resourceVersion of the request (k8s.io/apiserver/pkg/registry/generic/registry/store.go).
 */
function isDeletedByWrite({ verb, subresource }: ClientRequest, { metadata }: KubeObject): boolean {
  const isWrite = subresource === undefined && (verb === 'patch' || verb === 'update' || verb === 'apply');
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = metadata;
  return isWrite && deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0 && finalizers.length === 0;
}

/**
 * Whether the error says that the object is, or may be, not as the cache shows it. A caller that also reads the object, such as
 * `createOnce` or `finalizer`, reads it a second time: such errors are rare.
 */
function showsStaleCache({ verb, uid }: ClientRequest, error: unknown): boolean {
  if (verb === 'create') return isAlreadyExists(error);
  const isUpdate = verb === 'patch' || verb === 'update' || verb === 'apply';
  // The API server may have committed it. The next reconcile must not compare with the object as it was before.
  if (error instanceof NoResponseError) return isUpdate && error.wasSent;
  // A delete needs no permission to read. The Applier itself reads after an apply without a uid.
  return isUpdate && !(verb === 'apply' && uid === undefined) && (isConflict(error) || isUidMismatch(error));
}

/** `object` is the reconciled object, as in every line; `resource` and `written` are what it wrote. */
function detailsOf({ informer }: WatchMinimums, minimum: Minimum): Record<string, unknown> {
  const { key, object: written, version, sinceMs } = minimum;
  const ageMs = Math.round(performance.now() - sinceMs);
  return { object: key, resource: resourceName(informer.kind), written, version, ageMs };
}
