import type { CacheProgress } from '../cache/index.ts';
import { type Client, type ClientRequest, isNotFound } from '../client/index.ts';
import { type Kind, type KubeObject, keyString, type ObjectKey, resourceName } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';

/** A write or read of one key's reconcile that a cache has yet to observe. */
interface Minimum {
  readonly key: string;
  /** What was written or read: its namespace and name. */
  readonly object: string;
  readonly uid: string;
  /** When it was set, by `performance.now`. */
  readonly sinceMs: number;
  readonly isObserved: () => boolean;
}

/** One watch of an informer: that of one of its namespaces, or its only one. */
interface Watch {
  readonly informer: CacheProgress;
  readonly namespace: string | undefined;
  /** The oldest first. */
  readonly minimums: Set<Minimum>;
  /** When it was last listed or reset, by `performance.now`. */
  listedAtMs: number;
  timer: NodeJS.Timeout | undefined;
  /** The minimum for which it was replaced last. */
  replacedFor: Minimum | undefined;
}

/** What {@link ReadYourWrites} needs. */
export interface ReadYourWritesOptions {
  /** Asks for a key to be reconciled. */
  readonly enqueue: (key: string) => void;
  readonly log: Logger;
  /** How long a write may stay unobserved before its watch is replaced. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Told of each watch that is replaced. */
  readonly watchReplaced?: (resource: string) => void;
}

/**
 * Keeps a reconcile from reading a cache that has not observed what an earlier reconcile of the same key wrote. The
 * answer to each write sets a minimum resourceVersion for the key; the answer to a finished delete has none, so the
 * minimum is the absence of that uid. A read past the cache sets one too: it may show a write whose answer was lost.
 *
 * Guarantees:
 * - A key is deferred only when it is dequeued, and is enqueued again when all its minimums are observed.
 * - A write by itself enqueues nothing. A minimum that is observed is forgotten.
 * - After a list or a reset every key that had a minimum there is enqueued: no event may tell of an object that came and
 *   went between two lists.
 * - A minimum can be observed, or is dropped: one that the cache does not cover is not set; one that is not observed in
 *   time has its watch replaced, then listed anew, and a list that began after the write settles it.
 */
export class ReadYourWrites {
  /** By resource: the versions of a kind share their objects, and their resourceVersions. */
  readonly #watches = new Map<string, Watch[]>();
  readonly #enqueue: (key: string) => void;
  readonly #log: Logger;
  readonly #timeoutMs: number;
  readonly #watchReplaced: (resource: string) => void;
  /** How many minimums of a key are not observed. */
  readonly #unobserved = new Map<string, number>();
  /** Keys that were dequeued too early. */
  readonly #deferred = new Set<string>();
  readonly #detach: (() => void)[] = [];

  /** @param informers those that the controller reads; writes to other kinds set no minimum. */
  constructor(informers: readonly CacheProgress[], options: ReadYourWritesOptions) {
    this.#enqueue = options.enqueue;
    this.#log = options.log;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#watchReplaced = options.watchReplaced ?? (() => {});
    for (const informer of new Set(informers)) this.#attach(informer);
  }

  /** Hears nothing more from its informers: no key is enqueued any more, and a write that is answered later sets no minimum. */
  detach(): void {
    this.#watches.clear();
    for (const detach of this.#detach.splice(0)) detach();
  }

  /** Whether the caches are behind the key's own writes. If so, the key is enqueued when they have observed them. */
  defer(key: string): boolean {
    if (!this.#unobserved.has(key)) return false;
    this.#deferred.add(key);
    return true;
  }

  /** The client for one reconcile: its requests end with the signal, and set the minimums of the key. */
  client(client: Client, key: string, signal: AbortSignal): Client {
    return client.scoped({
      signal,
      hook: async (request, send) => {
        const sentAtMs = performance.now();
        const uid = request.verb === 'delete' ? (request.uid ?? this.#knownUid(key, request)) : undefined;
        try {
          const answer = await send();
          this.#answered(key, request, answer, uid, sentAtMs);
          return answer;
        } catch (error) {
          // It is gone, which the cache may not know. (A kind that is not served is not found either, and names nothing.)
          const isGone =
            request.verb === 'delete' && isNotFound(error) && error.status.details?.name === request.key?.name;
          if (isGone) this.#deleted(key, request.kind, request.key, uid, sentAtMs);
          throw error;
        }
      },
    });
  }

  #attach(informer: CacheProgress): void {
    const resource = resourceName(informer.kind);
    const watches = this.#watches.get(resource) ?? [];
    this.#watches.set(resource, watches);
    for (const namespace of informer.namespaces ?? [undefined]) {
      const minimums = new Set<Minimum>();
      const watch: Watch = { informer, namespace, minimums, listedAtMs: 0, timer: undefined, replacedFor: undefined };
      watches.push(watch);
      const remove = informer.observe({
        progressed: (of) => {
          if (of === namespace) this.#progressed(watch);
        },
        listed: (of, startedAtMs) => {
          if (of === namespace) this.#listed(watch, startedAtMs);
        },
        reset: (of) => {
          if (of === undefined || of === namespace) this.#listed(watch, Number.POSITIVE_INFINITY);
        },
      });
      this.#detach.push(remove, () => clearTimeout(watch.timer));
    }
  }

  /** Of the object that a delete without a uid is for: what the key wrote itself may not be in the store yet. */
  #knownUid(key: string, { kind, key: object }: ClientRequest): string | undefined {
    if (object === undefined) return undefined;
    for (const { minimums, informer } of this.#watchesOf(kind, object.namespace)) {
      const name = keyString(object);
      const unseen = [...minimums].findLast((minimum) => minimum.key === key && minimum.object === name);
      const uid = unseen?.uid ?? informer.store.get(object)?.metadata.uid;
      if (uid !== undefined) return uid;
    }
    return undefined;
  }

  #answered(key: string, request: ClientRequest, answer: unknown, uid: string | undefined, sentAtMs: number): void {
    const { verb, kind } = request;
    if (request.isDryRun || verb === 'list') return;
    if (verb === 'deletecollection') {
      // The objects as they were before.
      for (const { metadata } of answer as readonly KubeObject[]) {
        this.#deleted(key, kind, metadata, metadata.uid, sentAtMs);
      }
      return;
    }
    const object = answer as KubeObject | undefined;
    if (object !== undefined) this.#written(key, kind, object, sentAtMs);
    // Some kinds are answered by the object, of a version before its deletion, though it is gone.
    if (verb === 'delete' && object?.metadata.deletionTimestamp === undefined) {
      this.#deleted(key, kind, request.key, object?.metadata.uid ?? uid, sentAtMs);
    }
  }

  #written(key: string, kind: Kind, object: KubeObject, sentAtMs: number): void {
    const { resourceVersion, namespace, uid } = object.metadata;
    for (const watch of this.#watchesOf(kind, namespace)) {
      const { informer } = watch;
      if (!informer.covers(object)) continue;
      const isObserved = () => informer.hasReached(resourceVersion, watch.namespace);
      this.#expect(watch, sentAtMs, { key, object: keyString(object.metadata), uid, isObserved });
    }
  }

  #deleted(key: string, kind: Kind, object: ObjectKey | undefined, uid: string | undefined, sentAtMs: number): void {
    if (object === undefined || uid === undefined) return;
    for (const watch of this.#watchesOf(kind, object.namespace)) {
      const { informer } = watch;
      const stored = informer.store.get(object);
      const unseen =
        stored?.metadata.uid === uid
          ? []
          : [...watch.minimums].filter((minimum) => minimum.key === key && minimum.uid === uid);
      if (unseen.length === 0 && (stored === undefined || !informer.covers(stored))) continue;
      const isObserved = () => {
        // What the cache has not observed yet is absent too.
        if (unseen.some((minimum) => watch.minimums.has(minimum))) return false;
        const { metadata } = informer.store.get(object) ?? {};
        // One that has begun to go may be held up for long, by a finalizer of this very controller.
        return metadata?.uid !== uid || metadata.deletionTimestamp !== undefined;
      };
      this.#expect(watch, sentAtMs, { key, object: keyString(object), uid, isObserved });
    }
  }

  #watchesOf(kind: Kind, namespace: string | undefined): readonly Watch[] {
    const watches = this.#watches.get(resourceName(kind)) ?? [];
    return watches.filter((watch) => watch.namespace === undefined || watch.namespace === namespace);
  }

  #expect(watch: Watch, sentAtMs: number, minimum: Omit<Minimum, 'sinceMs'>): void {
    const { key } = minimum;
    // The list may have come after the write and after what undid it.
    if (watch.listedAtMs > sentAtMs) this.#enqueue(key);
    if (minimum.isObserved()) return;
    watch.minimums.add({ ...minimum, sinceMs: performance.now() });
    this.#unobserved.set(key, (this.#unobserved.get(key) ?? 0) + 1);
    watch.timer ??= this.#startTimer(watch, this.#timeoutMs);
  }

  #progressed(watch: Watch): void {
    for (const minimum of watch.minimums) if (minimum.isObserved()) this.#forget(watch, minimum);
  }

  #listed(watch: Watch, startedAtMs: number): void {
    watch.listedAtMs = performance.now();
    const minimums = [...watch.minimums];
    const keys = new Set(minimums.map(({ key }) => key));
    // They are enqueued below, once each.
    for (const key of keys) this.#deferred.delete(key);
    for (const minimum of minimums) {
      if (minimum.sinceMs < startedAtMs || minimum.isObserved()) this.#forget(watch, minimum);
    }
    for (const key of keys) this.#enqueue(key);
  }

  #forget(watch: Watch, minimum: Minimum): void {
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

  #startTimer(watch: Watch, delayMs: number): NodeJS.Timeout {
    return setTimeout(() => this.#checkTime(watch), delayMs).unref();
  }

  /** Replaces the watch if its oldest minimum is overdue: first by one that resumes, the next time by one that lists. */
  #checkTime(watch: Watch): void {
    watch.timer = undefined;
    const [oldest] = watch.minimums;
    if (oldest === undefined) return;
    const { informer, namespace } = watch;
    const ageMs = performance.now() - oldest.sinceMs;
    const leftMs = this.#timeoutMs - ageMs;
    watch.timer = this.#startTimer(watch, leftMs > 0 ? leftMs : this.#timeoutMs);
    if (leftMs > 0) return;
    const relist = watch.replacedFor === oldest;
    // Another controller may have replaced it: each watch is given its time.
    if (!informer.replaceWatch(namespace, { relist, openForMs: this.#timeoutMs / 2 })) return;
    const resource = resourceName(informer.kind);
    this.#watchReplaced(resource);
    if (relist) return;
    watch.replacedFor = oldest;
    const where = namespace === undefined ? { resource } : { resource, namespace };
    const details = { object: oldest.key, ...where, ageMs: Math.round(ageMs) };
    this.#log.warn(details, 'the watch has not brought a write of our own: replacing the watch');
  }
}
