import type { CacheProgress } from '../cache/index.ts';
import { type Client, type ClientRequest, isConflict, isNotFound } from '../client/index.ts';
import { type Kind, type KubeObject, keyString, type ObjectKey, resourceName } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';

/** A write or read by a key's reconcile that a cache has not observed yet. */
interface Minimum {
  readonly key: string;
  /** The namespace and name of the object that was written or read. */
  readonly object: string;
  readonly uid: string;
  /** When it was set, by `performance.now`. */
  readonly sinceMs: number;
  readonly isObserved: () => boolean;
}

/** One watch of an informer (of one namespace, or the only one), and what it has not observed. */
interface WatchMinimums {
  readonly informer: CacheProgress;
  readonly namespace: string | undefined;
  /** Oldest first. */
  readonly minimums: Set<Minimum>;
  /** When it was last listed or reset, by `performance.now`. */
  listedOrResetAtMs: number;
  timer: NodeJS.Timeout | undefined;
  /** The minimum for which the watch was last replaced. */
  replacedFor: Minimum | undefined;
}

/** Options of {@link ReadYourWrites}. */
export interface ReadYourWritesOptions {
  /** Adds a key to the queue. */
  readonly enqueue: (key: string) => void;
  readonly log: Logger;
  /** How long a write may stay unobserved before its watch is replaced. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Called for each watch that is replaced. */
  readonly watchReplaced?: (resource: string) => void;
}

/**
 * Keeps a reconcile from reading a cache that has not observed what an earlier reconcile of the same key wrote. The
 * response to each write sets a minimum resourceVersion for the key. A delete response has no resourceVersion: the key waits
 * until the cache no longer holds the uid, or shows it terminating. A read from the API server also sets a minimum, because
 * it may show a write whose response was lost. A patch or update that gets a Conflict is followed by such a read: the cache
 * is stale, perhaps because its watch died silently.
 *
 * Guarantees:
 * - A key is deferred only when it is dequeued, and is enqueued again when all its minimums are observed.
 * - A write does not enqueue its key. An observed minimum is removed.
 * - After a list or a reset, every key with a minimum on that watch is enqueued: an object that was created and deleted
 *   between two lists causes no event.
 * - A key waits for a bounded time. A write that the cache does not cover sets no minimum. If a minimum is not observed in time,
 *   the watch is replaced by one that resumes, then by one that lists; a list that began after the write drops the minimum.
 *   Exception: while the server refuses a kind that is not optional, the key waits until the server serves the kind again.
 */
export class ReadYourWrites {
  /** By resource: the versions of a kind share their objects and resourceVersions. */
  readonly #watches = new Map<string, WatchMinimums[]>();
  readonly #enqueue: (key: string) => void;
  readonly #log: Logger;
  readonly #timeoutMs: number;
  readonly #watchReplaced: (resource: string) => void;
  /** By key: how many of its minimums are not observed. */
  readonly #unobserved = new Map<string, number>();
  /** Keys that were dequeued too early. */
  readonly #deferred = new Set<string>();
  readonly #detach: (() => void)[] = [];

  /** @param informers the informers that the controller reads. Writes to other kinds set no minimum. */
  constructor(informers: readonly CacheProgress[], options: ReadYourWritesOptions) {
    this.#enqueue = options.enqueue;
    this.#log = options.log;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#watchReplaced = options.watchReplaced ?? (() => {});
    for (const informer of new Set(informers)) this.#attach(informer);
  }

  /** Detaches from the informers: enqueues no more keys, and later responses set no minimum. */
  detach(): void {
    this.#watches.clear();
    for (const detach of this.#detach.splice(0)) detach();
  }

  /** Defers a key if the caches have not observed its writes, and returns whether it did. Enqueues the key when they have. */
  defer(key: string): boolean {
    if (!this.#unobserved.has(key)) return false;
    this.#deferred.add(key);
    return true;
  }

  /** The client for one reconcile. Its requests are aborted with the signal, and set the key's minimums. */
  client(client: Client, key: string, signal: AbortSignal): Client {
    return client.scoped({
      signal,
      hook: async (request, send) => {
        const sentAtMs = performance.now();
        const uid = request.verb === 'delete' ? (request.uid ?? this.#knownUid(key, request)) : undefined;
        try {
          const response = await send();
          this.#recordResponse(key, request, response, uid, sentAtMs);
          return response;
        } catch (error) {
          // The object no longer exists, but the cache may still hold it. A 404 for a kind that is not served names no object.
          const isGone =
            request.verb === 'delete' && isNotFound(error) && error.status.details?.name === request.key?.name;
          if (isGone) this.#addDeletionMinimum(key, request.kind, request.key, uid, sentAtMs);
          if (isConflict(error)) await this.#readAfterConflict(request, this.client(client, key, signal));
          throw error;
        }
      },
    });
  }

  /** Reads the object, which sets a minimum. The caller throws the Conflict, so an error of the read does not matter. */
  async #readAfterConflict({ verb, kind, key: object }: ClientRequest, client: Client): Promise<void> {
    // The Applier reads the object after an apply that found its name taken. A delete needs no permission to read.
    const isRead = (verb === 'patch' || verb === 'update') && this.#watches.has(resourceName(kind));
    if (isRead && object !== undefined) await client.get(kind, object).catch(() => {});
  }

  #attach(informer: CacheProgress): void {
    const resource = resourceName(informer.kind);
    const watches = this.#watches.get(resource) ?? [];
    this.#watches.set(resource, watches);
    for (const namespace of informer.namespaces ?? [undefined]) {
      const minimums = new Set<Minimum>();
      const watch: WatchMinimums = {
        informer,
        namespace,
        minimums,
        listedOrResetAtMs: 0,
        timer: undefined,
        replacedFor: undefined,
      };
      watches.push(watch);
      const remove = informer.observe({
        progressed: (changedNamespace) => {
          if (changedNamespace === namespace) this.#progressed(watch);
        },
        listed: (changedNamespace, startedAtMs) => {
          if (changedNamespace === namespace) this.#afterListOrReset(watch, startedAtMs);
        },
        reset: (changedNamespace) => {
          // Every minimum is older than the reset.
          const isAffected = changedNamespace === undefined || changedNamespace === namespace;
          if (isAffected) this.#afterListOrReset(watch, Number.POSITIVE_INFINITY);
        },
      });
      this.#detach.push(remove, () => clearTimeout(watch.timer));
    }
  }

  /** The uid for a delete request without one. The store may not hold the key's own writes yet, so its minimums come first. */
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
        this.#addDeletionMinimum(key, kind, metadata, metadata.uid, sentAtMs);
      }
      return;
    }
    const object = response as KubeObject | undefined;
    if (object !== undefined) this.#addVersionMinimum(key, kind, object, sentAtMs);
    // Some kinds answer a finished delete with the object's last version.
    if (verb === 'delete' && object?.metadata.deletionTimestamp === undefined) {
      this.#addDeletionMinimum(key, kind, request.key, object?.metadata.uid ?? uid, sentAtMs);
    }
  }

  #addVersionMinimum(key: string, kind: Kind, object: KubeObject, sentAtMs: number): void {
    const { resourceVersion, namespace, uid } = object.metadata;
    for (const watch of this.#watchesOf(kind, namespace)) {
      const { informer } = watch;
      if (!informer.covers(object)) continue;
      const isObserved = () => informer.hasReached(resourceVersion, watch.namespace);
      this.#addMinimum(watch, sentAtMs, { key, object: keyString(object.metadata), uid, isObserved });
    }
  }

  #addDeletionMinimum(
    key: string,
    kind: Kind,
    object: ObjectKey | undefined,
    uid: string | undefined,
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
      if (unobserved.length === 0 && (stored === undefined || !informer.covers(stored))) continue;
      const isObserved = () => {
        // Absence does not prove the deletion while the cache has not observed the creation.
        if (unobserved.some((minimum) => watch.minimums.has(minimum))) return false;
        const { metadata } = informer.store.get(object) ?? {};
        // Do not wait for a terminating object to be gone: a finalizer of this controller may hold it.
        return metadata?.uid !== uid || metadata.deletionTimestamp !== undefined;
      };
      this.#addMinimum(watch, sentAtMs, { key, object: keyString(object), uid, isObserved });
    }
  }

  #watchesOf(kind: Kind, namespace: string | undefined): readonly WatchMinimums[] {
    const watches = this.#watches.get(resourceName(kind)) ?? [];
    return watches.filter((watch) => watch.namespace === undefined || watch.namespace === namespace);
  }

  #addMinimum(watch: WatchMinimums, sentAtMs: number, minimum: Omit<Minimum, 'sinceMs'>): void {
    const { key } = minimum;
    // A list arrived while the request was in flight. If a later change has undone this write before the list, no event follows.
    if (watch.listedOrResetAtMs > sentAtMs) this.#enqueue(key);
    if (minimum.isObserved()) return;
    watch.minimums.add({ ...minimum, sinceMs: performance.now() });
    this.#unobserved.set(key, (this.#unobserved.get(key) ?? 0) + 1);
    watch.timer ??= this.#startTimer(watch, this.#timeoutMs);
  }

  #progressed(watch: WatchMinimums): void {
    for (const minimum of watch.minimums) if (minimum.isObserved()) this.#removeMinimum(watch, minimum);
  }

  /** Removes the minimums of the watch that are older than `timeMs`, and enqueues each key that had a minimum. */
  #afterListOrReset(watch: WatchMinimums, timeMs: number): void {
    watch.listedOrResetAtMs = performance.now();
    const minimums = [...watch.minimums];
    const keys = new Set(minimums.map(({ key }) => key));
    // Each key is enqueued once, below, not also when its last minimum is removed.
    for (const key of keys) this.#deferred.delete(key);
    for (const minimum of minimums) {
      if (minimum.sinceMs < timeMs || minimum.isObserved()) this.#removeMinimum(watch, minimum);
    }
    for (const key of keys) this.#enqueue(key);
  }

  #removeMinimum(watch: WatchMinimums, minimum: Minimum): void {
    const { key } = minimum;
    watch.minimums.delete(minimum);
    const left = (this.#unobserved.get(key) ?? 0) - 1;
    if (left > 0) {
      this.#unobserved.set(key, left);
      return;
    }
    this.#unobserved.delete(key);
    if (this.#deferred.delete(key)) this.#enqueue(key);
  }

  #startTimer(watch: WatchMinimums, delayMs: number): NodeJS.Timeout {
    return setTimeout(() => this.#replaceIfOverdue(watch), delayMs).unref();
  }

  /** Replaces the watch if its oldest minimum is overdue: the first time by one that resumes, then by one that lists. */
  #replaceIfOverdue(watch: WatchMinimums): void {
    watch.timer = undefined;
    const [oldest] = watch.minimums;
    if (oldest === undefined) return;
    const { informer, namespace } = watch;
    const ageMs = performance.now() - oldest.sinceMs;
    const leftMs = this.#timeoutMs - ageMs;
    watch.timer = this.#startTimer(watch, leftMs > 0 ? leftMs : this.#timeoutMs);
    if (leftMs > 0) return;
    const relist = watch.replacedFor === oldest;
    // Another controller may have replaced the watch just now: leave a new watch enough time.
    if (!informer.replaceWatch(namespace, { relist, openForMs: this.#timeoutMs / 2 })) return;
    const resource = resourceName(informer.kind);
    this.#watchReplaced(resource);
    if (relist) return;
    watch.replacedFor = oldest;
    const where = namespace === undefined ? { resource } : { resource, namespace };
    const details = { object: oldest.key, ...where, ageMs: Math.round(ageMs) };
    this.#log.warn(details, 'the watch has not delivered our own write: replacing the watch');
  }
}
