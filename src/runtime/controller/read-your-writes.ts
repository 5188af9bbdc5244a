import type { AnyInformer, Delta } from '../cache/index.ts';
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
import { differOnlyInStatus } from '../observability/field-paths.ts';
import type { AwaitedWrite, Logger, ReconcileTrace } from '../observability/index.ts';
import { type Cause, type ObservedCause, withCause } from '../queue/cause.ts';
import { type Minimum, type ReplacementOptions, WatchReplacer } from './watch-replacer.ts';

/** A deletion that a response showed. */
interface Deletion {
  readonly uid: string | undefined;
  /**
   * When the cache has observed it. An object whose deletion was requested counts once it is terminating: a finalizer of
   * this controller may hold it for longer.
   */
  readonly observedAt: 'terminating' | 'gone';
}

/** One partition of an informer (of one namespace, or the only one), and what it has not observed. */
interface Partition {
  readonly informer: AnyInformer;
  readonly namespace: string | undefined;
  /** Oldest first. */
  readonly minimums: Set<Minimum>;
  readonly replacer: WatchReplacer;
  /** Keys with a write that no event may show: they are enqueued after the next list. */
  readonly enqueueAtNextList: Set<string>;
  /** When it was last listed or reset, by `performance.now`. */
  listedOrResetAtMs: number;
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
type EnqueueAgain = (key: string, cause: Cause, eventAtMs: number | undefined) => void;

/** Options of {@link ReadYourWrites}. */
export interface ReadYourWritesOptions {
  /** Adds a key to the queue. */
  readonly enqueue: EnqueueAgain;
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
 * - If a minimum is not observed within `timeoutMs`, the {@link WatchReplacer} replaces the watch by one that resumes, then by one
 *   that lists.
 * - Therefore a key waits for a bounded time, unless list and watch fail with errors other than that.
 *
 * **What enqueues the key**
 * - The last minimum of a deferred key is removed, and no request is in flight.
 * - A list or a reset of a watch on which the key has a minimum; also a list while a write of the key is in flight. An object that
 *   was created and deleted between two lists causes no event.
 * - A list, if the key made a write that the cache could not observe, or whose minimum was given up or removed by a reset.
 */
export class ReadYourWrites {
  /** By resource: the versions of a kind share their objects and resourceVersions. */
  readonly #partitions = new Map<string, Partition[]>();
  readonly #enqueue: EnqueueAgain;
  readonly #replacement: ReplacementOptions;
  /** By key: its minimums, oldest first. No key has none. */
  readonly #unobserved = new Map<string, Set<Minimum>>();
  /** By key: how many of its requests have no response yet. */
  readonly #inFlight = new Map<string, number>();
  /** Keys that were dequeued too early. */
  readonly #deferred = new Map<string, Deferral>();
  readonly #observerRemovers: (() => void)[] = [];

  /** @param informers the informers that the controller reads. Writes to other kinds set no minimum. */
  constructor(informers: readonly AnyInformer[], options: ReadYourWritesOptions) {
    this.#enqueue = options.enqueue;
    const { log, timeoutMs = 10_000, watchReplaced = () => {} } = options;
    this.#replacement = { log, timeoutMs, watchReplaced };
    for (const informer of new Set(informers)) this.#attach(informer);
  }

  /** Detaches from the informers: enqueues no more keys, and later responses set no minimum. */
  detach(): void {
    this.#partitions.clear();
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

  /**
   * Whether a delta of a watch shows only what the response to a write of the key has shown: the creation of an object, or a change of its
   * status. False if the event came before the response, or after a list or reset.
   */
  isOwnWrite(key: string, delta: Delta<KubeObject>): boolean {
    const { uid, resourceVersion } = delta.object.metadata;
    for (const { version, uid: writtenUid, ownDelta } of this.#unobserved.get(key) ?? []) {
      if (version !== resourceVersion || writtenUid !== uid || ownDelta !== delta.type) continue;
      return delta.type === 'added' || (delta.type === 'modified' && isStatusWrite(delta.object, delta.previous));
    }
    return false;
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

  /** The writes of a key that the caches have not observed. */
  awaitedWrites(key: string): readonly AwaitedWrite[] {
    return Array.from(this.#unobserved.get(key) ?? [], ({ kind, writtenKey, version, sinceMs }) => ({
      kind: kind.kind,
      object: writtenKey,
      version,
      sinceMs,
    }));
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
  async #read({ kind, key }: ClientRequest, client: Client): Promise<void> {
    if (key !== undefined && this.#partitions.has(resourceName(kind))) await client.get(kind, key).catch(() => {});
  }

  #attach(informer: AnyInformer): void {
    const resource = resourceName(informer.kind);
    const partitions = this.#partitions.get(resource) ?? [];
    this.#partitions.set(resource, partitions);
    for (const namespace of informer.namespaces ?? [undefined]) {
      const minimums = new Set<Minimum>();
      const partition: Partition = {
        informer,
        namespace,
        minimums,
        replacer: new WatchReplacer({ informer, namespace, minimums }, this.#replacement, (minimum) => {
          partition.enqueueAtNextList.add(minimum.key);
          this.#removeMinimum(partition, minimum, 'gaveUp');
        }),
        enqueueAtNextList: new Set(),
        listedOrResetAtMs: 0,
      };
      partitions.push(partition);
      const remove = informer.observe({
        progressed: (changedNamespace) => {
          if (changedNamespace === namespace) this.#progressed(partition);
        },
        listed: (changedNamespace, startedAtMs) => {
          if (changedNamespace === namespace) this.#afterList(partition, startedAtMs);
        },
        reset: (changedNamespace) => {
          const isAffected = changedNamespace === undefined || changedNamespace === namespace;
          if (!isAffected) return;
          for (const { key } of partition.minimums) partition.enqueueAtNextList.add(key);
          // The cache may never reach the versions.
          this.#afterListOrReset(partition, (minimum) => this.#removeMinimum(partition, minimum, 'reset'));
        },
      });
      this.#observerRemovers.push(remove, () => partition.replacer.stop());
    }
  }

  /** The uid that the cache shows when the request is sent. */
  #storedUid({ kind, key }: Pick<ClientRequest, 'kind' | 'key'>): string | undefined {
    if (key === undefined) return undefined;
    const [partition] = this.#partitionsOf(kind, key.namespace);
    return partition?.informer.store.get(key)?.metadata.uid;
  }

  /** The uid for a delete request without one. The minimums come first: the store may not hold an object that the key just created. */
  #knownUid(key: string, { kind, key: objectKey }: ClientRequest): string | undefined {
    if (objectKey === undefined) return undefined;
    const [resource, writtenKey] = [resourceName(kind), keyString(objectKey)];
    const newest = [...(this.#unobserved.get(key) ?? [])].findLast(
      (minimum) => minimum.writtenKey === writtenKey && resourceName(minimum.kind) === resource,
    );
    return newest?.uid ?? this.#storedUid({ kind, key: objectKey });
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
      this.#addVersionMinimum(key, request, object, sentAtMs);
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

  #addVersionMinimum(key: string, request: ClientRequest, object: KubeObject, sentAtMs: number): void {
    const { resourceVersion, namespace, uid } = object.metadata;
    for (const partition of this.#partitionsOf(request.kind, namespace)) {
      const { informer } = partition;
      const coverage = informer.coverage(object);
      if (coverage === 'unlisted') partition.enqueueAtNextList.add(key);
      if (coverage !== 'watched') continue;
      const isObserved = () => informer.hasReached(resourceVersion, partition.namespace);
      const writtenKey = keyString(object.metadata);
      const { kind } = request;
      const minimum = {
        key,
        kind,
        writtenKey,
        uid,
        version: resourceVersion,
        ownDelta: ownDeltaOf(request),
        isObserved,
      };
      this.#addMinimum(partition, sentAtMs, minimum);
    }
  }

  #addDeletionMinimum(
    key: string,
    kind: Kind,
    objectKey: ObjectKey | undefined,
    { uid, observedAt }: Deletion,
    sentAtMs: number,
  ): void {
    if (objectKey === undefined || uid === undefined) return;
    for (const partition of this.#partitionsOf(kind, objectKey.namespace)) {
      const { informer } = partition;
      const stored = informer.store.get(objectKey);
      const creations =
        stored?.metadata.uid === uid
          ? []
          : [...(this.#unobserved.get(key) ?? [])].filter(
              (minimum) => minimum.uid === uid && partition.minimums.has(minimum),
            );
      if (creations.length === 0 && (stored === undefined || informer.coverage(stored) !== 'watched')) continue;
      const isObserved = () => {
        // Absence does not prove the deletion while the cache has not observed the creation.
        if (creations.some((minimum) => partition.minimums.has(minimum))) return false;
        const { metadata } = informer.store.get(objectKey) ?? {};
        return metadata?.uid !== uid || (observedAt === 'terminating' && metadata.deletionTimestamp !== undefined);
      };
      this.#addMinimum(partition, sentAtMs, {
        key,
        kind,
        writtenKey: keyString(objectKey),
        uid,
        version: undefined,
        isObserved,
      });
    }
  }

  #partitionsOf(kind: Kind, namespace: string | undefined): readonly Partition[] {
    const partitions = this.#partitions.get(resourceName(kind)) ?? [];
    return partitions.filter((partition) => partition.namespace === undefined || partition.namespace === namespace);
  }

  #addMinimum(partition: Partition, sentAtMs: number, minimum: Omit<Minimum, 'sinceMs'>): void {
    const { key } = minimum;
    // A list arrived while the request was in flight. If a later change has undone this write before the list, no event follows.
    if (partition.listedOrResetAtMs > sentAtMs) this.#enqueue(key, relist, undefined);
    if (minimum.isObserved()) return;
    const added = { ...minimum, sinceMs: performance.now() };
    partition.minimums.add(added);
    const unobserved = this.#unobserved.get(key);
    if (unobserved === undefined) this.#unobserved.set(key, new Set([added]));
    else unobserved.add(added);
    partition.replacer.start();
  }

  #progressed(partition: Partition): void {
    for (const minimum of partition.minimums)
      if (minimum.isObserved()) this.#removeMinimum(partition, minimum, 'observed');
  }

  #afterList(partition: Partition, startedAtMs: number): void {
    const keys = [...partition.enqueueAtNextList];
    partition.enqueueAtNextList.clear();
    this.#afterListOrReset(partition, (minimum) => {
      if (minimum.sinceMs < startedAtMs || minimum.isObserved()) this.#removeMinimum(partition, minimum, 'observed');
    });
    for (const key of keys) this.#enqueue(key, relist, undefined);
  }

  /** Enqueues each key with a minimum on the watch. A deferred key that still has a minimum stays deferred. */
  #afterListOrReset(partition: Partition, removeIfDue: (minimum: Minimum) => void): void {
    partition.listedOrResetAtMs = performance.now();
    const minimums = [...partition.minimums];
    minimums.forEach(removeIfDue);
    for (const key of new Set(minimums.map((minimum) => minimum.key))) {
      const deferral = this.#deferred.get(key);
      if (deferral === undefined) this.#enqueue(key, relist, undefined);
      else deferral.causes = withCause(deferral.causes, relist);
    }
  }

  #removeMinimum(partition: Partition, minimum: Minimum, how: Exclude<ObservedCause['how'], 'answered'>): void {
    const { key } = minimum;
    partition.minimums.delete(minimum);
    const unobserved = this.#unobserved.get(key);
    unobserved?.delete(minimum);
    if (unobserved !== undefined && unobserved.size > 0) return;
    this.#unobserved.delete(key);
    // A request in flight may set another minimum: its response enqueues the key.
    if (!this.#inFlight.has(key)) this.#enqueueDeferred(key, how, partition.informer.kind.kind);
  }
}

/** A `get` may show the change of another client; so may an apply or a status write that changes nothing. */
function ownDeltaOf({ verb, subresource }: ClientRequest): Minimum['ownDelta'] {
  if (subresource === 'status') return 'modified';
  return subresource === undefined && (verb === 'create' || verb === 'apply') ? 'added' : undefined;
}

/** The generation tells a change of the spec also where a `transform` has dropped the spec. */
const isStatusWrite = (object: KubeObject, previous: KubeObject): boolean =>
  object.metadata.generation === previous.metadata.generation && differOnlyInStatus(object, previous);

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
