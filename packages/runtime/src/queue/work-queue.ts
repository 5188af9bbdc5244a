import { maxTimerMs } from '../shared/timer-ms.ts';
import { type Cause, withCause } from './cause.ts';
import { FairQueue, namespaceOf, type Priority, QueueItem } from './fair-queue.ts';
import { type Linked, LinkedList } from './linked-list.ts';
import { TokenBucket } from './token-bucket.ts';

/** Observes the queue, for metrics. All calls are synchronous and must not throw. */
export interface QueueObserver {
  added?(): void;
  /** A key will be added after a delay: a retry, or a requested requeue. */
  retried?(): void;
  /** How many keys of one priority are waiting: 0 is `normal`, -100 `low` (as in controller-runtime). Default: 0. */
  depth?(items: number, priority?: number): void;
  /** How long a key waited for a worker. */
  waited?(seconds: number): void;
  /** A worker received the key. */
  started?(key: string): void;
  /** The worker returned the key. */
  finished?(key: string): void;
}

/** When a failed key is retried. */
export interface RetryOptions {
  /** The delay after a key's first failure; it doubles with each further one. Default 5 (as client-go). */
  readonly initialBackoffMs?: number;
  /** The longest delay between two attempts, before up to 10 % jitter. Default 60,000. */
  readonly maxBackoffMs?: number;
  /**
   * The rate limit for all retries of one namespace, so that many failing keys in one namespace do not delay those of
   * another. A retry is never delayed beyond `maxBackoffMs`, even if that exceeds the rate. Retries that would wait
   * longer at this rate wait for `maxBackoffMs` / 2 to `maxBackoffMs`, at random. Default 10 (client-go's, for all
   * keys). Infinity: no limit.
   */
  readonly retriesPerSecond?: number;
  /** How many retries of a namespace may exceed the rate limit in a burst. Default 100 (as client-go). */
  readonly retryBurst?: number;
}

/** Options of a {@link WorkQueue}. */
export interface WorkQueueOptions extends RetryOptions {
  readonly observer?: QueueObserver;
}

/** How a key is added. */
export interface AddOptions {
  /** Default: normal. */
  readonly priority?: Priority | undefined;
  /** Whether a watch event or a response caused this add. False for an object from a list. */
  readonly isEvent?: boolean;
  /** Time of the earliest event that no reconcile has handled yet, by `performance.now`. */
  readonly eventAtMs?: number | undefined;
}

/** A waiting key of low priority is dequeued after this many keys of normal priority in a row. */
const maxOvertaking = 32;

/** Most urgent first. */
const priorities = ['normal', 'low'] as const satisfies readonly Priority[];

const priorityInMetrics = { normal: 0, low: -100 } as const;

const emptyQueues = (): Readonly<Record<Priority, FairQueue>> => ({
  normal: new FairQueue(),
  low: new FairQueue(),
});

/** A success after failures for at least this long shows that their cause may be gone. A conflict ends sooner. */
const recoveredAfterMs = 5000;

/** How many retries such a success makes due: two, so that their number doubles for as long as they succeed. */
const retriesPerRecovery = 2;

/** How many failing keys such a success looks at: some of them already wait for a worker. */
const maxLookedAt = 64;

/** A key with failures. */
class FailingKey implements FailuresInARow, Linked<FailingKey> {
  readonly key: string;
  readonly since = new Date();
  count = 0;
  previous: FailingKey | undefined;
  next: FailingKey | undefined;

  constructor(key: string) {
    this.key = key;
  }
}

/** The retries of a namespace that has failures. */
class NamespaceRetries {
  readonly limit: TokenBucket;
  /** In the order of their first failures. */
  readonly failing = new LinkedList<FailingKey>();
  /** Where the search for the next key to retry early continues. Undefined: at the oldest. */
  nextEarly: FailingKey | undefined;

  constructor(limit: TokenBucket) {
    this.limit = limit;
  }

  remove(failing: FailingKey): void {
    if (this.nextEarly === failing) this.nextEarly = failing.next;
    this.failing.remove(failing);
  }
}

interface Timer {
  readonly timer: NodeJS.Timeout;
  readonly dueMs: number;
  priority: Priority;
  readonly cause: Cause;
}

/** How a key was added while a worker was processing it. */
interface AddedAgain {
  priority: Priority;
  /** Time of the first event among these adds, by `performance.now`. */
  eventAtMs: number | undefined;
  causes: readonly Cause[];
}

/** What the queue knows about a key. The record is dropped when it is empty. */
class KeyRecord {
  /** Set while the key waits or a worker is processing it. */
  item: QueueItem | undefined;
  addedAgain: AddedAgain | undefined;
  failures: FailingKey | undefined;
  timer: Timer | undefined;
}

const requeue: Cause = { type: 'requeue' };
const retry: Cause = { type: 'retry' };

/** The failures of a key since its last success. */
export interface FailuresInARow {
  readonly count: number;
  /** When the first one ended. */
  readonly since: Date;
}

/** Where a key is in the queue. Times are by `performance.now`. */
export interface KeyState {
  /** Since when the key has waited for a worker. */
  readonly waitingSinceMs: number | undefined;
  /** Why the key waits for a worker. */
  readonly cause: Cause | undefined;
  readonly isProcessing: boolean;
  /** When the key's timer enqueues it, even if nothing changes. */
  readonly dueAtMs: number | undefined;
  /**
   * Why the timer was set: a `retry` or a `requeue`. A retry stays due even if another reconcile succeeds in the
   * meantime.
   */
  readonly dueCause: Cause | undefined;
  /** How many times the key has failed in a row. */
  readonly failures: number;
}

/**
 * Keys waiting for a worker. A key waits at most once, however often it is added. At most one worker processes a key: a
 * key that is added during its reconcile waits until {@link WorkQueue.done}.
 *
 * Keys of normal priority go first, except that every 33rd key is of low priority, so that low priority does not
 * starve. Within a priority the queue alternates between namespaces: 10,000 waiting keys in one namespace do not delay
 * a single key in another. Within a namespace, keys are first in, first out. After a mass failure, the keys that failed
 * first are retried first. All operations are O(1), except timers, which are O(log n).
 */
export class WorkQueue {
  readonly #initialBackoffMs: number;
  readonly #maxBackoffMs: number;
  readonly #retryLimit: ConstructorParameters<typeof TokenBucket>[0];
  /** By namespace, for namespaces with a key that has failures. */
  readonly #retries = new Map<string, NamespaceRetries>();
  readonly #observer: QueueObserver;
  readonly #records = new Map<string, KeyRecord>();
  #queues = emptyQueues();
  /** How many keys of normal priority were dequeued in a row while a key of low priority waited. */
  #overtaking = 0;
  /** The items that workers are processing, in the order in which they were dequeued. */
  readonly #processing = new Set<QueueItem>();
  readonly #idleWorkers: (() => void)[] = [];
  #isClosed = false;

  /** @throws RangeError if `retriesPerSecond` or `retryBurst` allows no retry. */
  constructor(options: WorkQueueOptions = {}) {
    const { initialBackoffMs = 5, maxBackoffMs = 60_000, retriesPerSecond = 10, retryBurst = 100 } = options;
    if (!(retriesPerSecond > 0)) throw new RangeError(`retriesPerSecond must be above 0, is ${retriesPerSecond}`);
    if (!(retryBurst >= 1)) throw new RangeError(`retryBurst must be at least 1, is ${retryBurst}`);
    this.#initialBackoffMs = initialBackoffMs;
    this.#maxBackoffMs = maxBackoffMs;
    this.#retryLimit = { perSecond: retriesPerSecond, burst: retryBurst, maxWaitMs: maxBackoffMs };
    this.#observer = options.observer ?? {};
  }

  /** How many keys wait for a worker. Excludes keys that are being processed and keys that only have a timer. */
  get depth(): number {
    const { normal, low } = this.#queues;
    return normal.size + low.size;
  }

  /** Adds a key. If the key already waits, the more urgent priority applies, and the first cause stays. */
  add(key: string, { priority = 'normal', isEvent = false, eventAtMs }: AddOptions = {}, cause?: Cause): void {
    if (this.#isClosed) return;
    const record = this.#recordOf(key);
    const { item } = record;
    if (item !== undefined && this.#processing.has(item)) {
      record.addedAgain ??= { priority, eventAtMs: undefined, causes: [] };
      const { addedAgain } = record;
      addedAgain.priority = moreUrgent(priority, addedAgain.priority);
      if (isEvent) addedAgain.eventAtMs ??= performance.now();
      if (cause !== undefined) addedAgain.causes = withCause(addedAgain.causes, cause);
      return;
    }
    if (item !== undefined) {
      item.furtherAdds += 1;
      if (isEvent) item.eventAtMs ??= performance.now();
      else if (eventAtMs !== undefined) item.eventAtMs = Math.min(eventAtMs, item.eventAtMs ?? eventAtMs);
      if (cause !== undefined && cause !== item.cause) {
        item.furtherCauses = withCause(item.furtherCauses ?? [], cause);
      }
      if (moreUrgent(priority, item.priority) !== item.priority) this.#raise(item, priority);
      return;
    }
    this.#observer.added?.();
    const nowMs = performance.now();
    record.item = new QueueItem(key, priority, nowMs, cause, isEvent ? nowMs : eventAtMs);
    this.#enqueue(record.item);
    // Workers resume in a microtask, so a synchronous caller may add a key several times before it is dequeued. One
    // reconcile then sees the whole batch of a watch.
    this.#idleWorkers.shift()?.();
  }

  /**
   * Adds the key after a delay. If the key already has a timer, the earlier time and the more urgent priority apply.
   */
  addAfter(
    key: string,
    delayMs: number,
    { priority = 'normal' }: { readonly priority?: Priority } = {},
    cause: Cause = requeue,
  ): void {
    if (this.#isClosed) return;
    this.#observer.retried?.();
    const dueMs = performance.now() + delayMs;
    const record = this.#recordOf(key);
    const pending = record.timer;
    const urgency = moreUrgent(priority, pending?.priority);
    if (pending !== undefined) {
      if (pending.dueMs <= dueMs) {
        pending.priority = urgency;
        return;
      }
      clearTimeout(pending.timer);
    }
    this.#startTimer(key, record, dueMs, delayMs, urgency, cause);
  }

  /**
   * Adds the key after a delay that doubles with each failure since the last {@link forget}, with up to 10 % jitter.
   * The rate limit for the retries of its namespace may prolong the delay. The key keeps the priority at which it was
   * dequeued.
   */
  addRateLimited(key: string): void {
    if (this.#isClosed) return;
    const record = this.#recordOf(key);
    const retries = this.#retriesOfNamespace(key);
    if (record.failures === undefined) {
      record.failures = new FailingKey(key);
      retries.failing.push(record.failures);
    }
    const backoffMs = Math.min(this.#initialBackoffMs * 2 ** record.failures.count, this.#maxBackoffMs);
    record.failures.count += 1;
    const jitteredMs = backoffMs * (1 + Math.random() / 10);
    const priority = this.#processingOf(record)?.priority ?? 'normal';
    this.addAfter(key, Math.max(jitteredMs, retries.limit.take()), { priority }, retry);
  }

  /**
   * Resets the key's backoff: its next failure counts as the first. If the key had failed for five seconds or longer,
   * two more keys of its namespace are retried at once: those that failed first.
   */
  forget(key: string): void {
    const record = this.#records.get(key);
    if (record?.failures === undefined) return;
    const failedForMs = Date.now() - record.failures.since.getTime();
    const retries = this.#retriesOfNamespace(key);
    retries.remove(record.failures);
    record.failures = undefined;
    this.#dropIfEmpty(key, record);
    if (retries.failing.first === undefined) this.#retries.delete(namespaceOf(key));
    else if (failedForMs >= recoveredAfterMs) this.#retryEarly(retries);
  }

  /** The item of a key that a worker is processing. */
  processing(key: string): Readonly<QueueItem> | undefined {
    return this.#processingOf(this.#records.get(key));
  }

  /** When a key's timer is due, by `performance.now`. */
  dueAtMs(key: string): number | undefined {
    return this.#records.get(key)?.timer?.dueMs;
  }

  /**
   * How many times a key has failed since the last {@link forget}, and when it first failed. Undefined: it has not
   * failed.
   */
  failuresInARow(key: string): FailuresInARow | undefined {
    return this.#records.get(key)?.failures;
  }

  /** How many times a key has failed since the last {@link forget}. */
  failures(key: string): number {
    return this.#records.get(key)?.failures?.count ?? 0;
  }

  /** The items of the keys that workers are processing. */
  allProcessing(): Iterable<Readonly<QueueItem>> {
    return this.#processing;
  }

  stateOf(key: string): KeyState {
    const { item, timer, failures } = this.#records.get(key) ?? {};
    const isProcessing = item !== undefined && this.#processing.has(item);
    const waiting = isProcessing ? undefined : item;
    return {
      waitingSinceMs: waiting?.addedAtMs,
      cause: waiting?.cause,
      isProcessing,
      dueAtMs: timer?.dueMs,
      dueCause: timer?.cause,
      failures: failures?.count ?? 0,
    };
  }

  /** Resolves with the next key, or with undefined once the queue is closed. Return the key with {@link done}. */
  async next(): Promise<string | undefined> {
    for (;;) {
      if (this.#isClosed) return undefined;
      const item = this.#dequeue();
      if (item !== undefined) return item.key;
      await new Promise<void>((resolve) => this.#idleWorkers.push(resolve));
    }
  }

  /** Call this when the worker has finished with the key. If the key was added in the meantime, it is enqueued now. */
  done(key: string): void {
    const record = this.#records.get(key);
    if (record?.item === undefined || !this.#processing.delete(record.item)) return;
    const { addedAgain } = record;
    record.item = undefined;
    record.addedAgain = undefined;
    this.#observer.finished?.(key);
    if (addedAgain === undefined) {
      this.#dropIfEmpty(key, record);
      return;
    }
    const { priority, eventAtMs, causes } = addedAgain;
    const [cause, ...others] = causes;
    this.add(key, { priority, eventAtMs }, cause);
    for (const other of others) this.add(key, { priority }, other);
  }

  /** Closes the queue and drops all keys. A level-based reconciler finds the work again at the next start. */
  close(): void {
    this.#isClosed = true;
    this.#queues = emptyQueues();
    for (const priority of priorities) this.#reportDepth(priority);
    this.#retries.clear();
    for (const [key, record] of this.#records) {
      clearTimeout(record.timer?.timer);
      record.addedAgain = undefined;
      record.failures = undefined;
      record.timer = undefined;
      if (this.#processingOf(record) === undefined) this.#records.delete(key);
    }
    for (const wake of this.#idleWorkers.splice(0)) wake();
  }

  #recordOf(key: string): KeyRecord {
    const existing = this.#records.get(key);
    if (existing !== undefined) return existing;
    const record = new KeyRecord();
    this.#records.set(key, record);
    return record;
  }

  #dropIfEmpty(key: string, { item, failures, timer }: KeyRecord): void {
    if (item === undefined && failures === undefined && timer === undefined) this.#records.delete(key);
  }

  #processingOf(record: KeyRecord | undefined): QueueItem | undefined {
    return record?.item !== undefined && this.#processing.has(record.item) ? record.item : undefined;
  }

  #retriesOfNamespace(key: string): NamespaceRetries {
    const namespace = namespaceOf(key);
    const retries = this.#retries.get(namespace) ?? new NamespaceRetries(new TokenBucket(this.#retryLimit));
    this.#retries.set(namespace, retries);
    return retries;
  }

  /** Without this, the keys that failed first would recover last: their next retries are the latest. */
  #retryEarly(retries: NamespaceRetries): void {
    let left = retriesPerRecovery;
    let failing = retries.nextEarly ?? retries.failing.first;
    for (let looked = 0; failing !== undefined && left > 0 && looked < maxLookedAt; looked += 1) {
      const { key } = failing;
      failing = failing.next;
      const record = this.#records.get(key);
      const timer = record?.timer;
      if (record === undefined || timer?.cause !== retry) continue;
      clearTimeout(timer.timer);
      record.timer = undefined;
      this.add(key, { priority: timer.priority }, retry);
      left -= 1;
    }
    retries.nextEarly = failing;
  }

  #enqueue(item: QueueItem): void {
    this.#queues[item.priority].push(item);
    this.#reportDepth(item.priority);
  }

  #raise(item: QueueItem, priority: Priority): void {
    this.#queues[item.priority].delete(item);
    this.#reportDepth(item.priority);
    item.priority = priority;
    this.#enqueue(item);
  }

  #dequeue(): QueueItem | undefined {
    const { normal, low } = this.#queues;
    const isLowTurn = low.size > 0 && (normal.size === 0 || this.#overtaking >= maxOvertaking);
    const item = isLowTurn ? low.shift() : normal.shift();
    if (item === undefined) return undefined;
    this.#overtaking = isLowTurn || low.size === 0 ? 0 : this.#overtaking + 1;
    this.#processing.add(item);
    this.#reportDepth(item.priority);
    this.#observer.waited?.((performance.now() - item.addedAtMs) / 1000);
    this.#observer.started?.(item.key);
    return item;
  }

  #reportDepth(priority: Priority): void {
    this.#observer.depth?.(this.#queues[priority].size, priorityInMetrics[priority]);
  }

  #startTimer(key: string, record: KeyRecord, dueMs: number, leftMs: number, priority: Priority, cause: Cause): void {
    const timer = setTimeout(
      () => {
        if (leftMs > maxTimerMs) {
          this.#startTimer(key, record, dueMs, dueMs - performance.now(), pending.priority, cause);
          return;
        }
        record.timer = undefined;
        this.add(key, { priority: pending.priority }, cause);
      },
      Math.min(leftMs, maxTimerMs),
    );
    const pending: Timer = { timer, dueMs, priority, cause };
    record.timer = pending;
  }
}

const moreUrgent = (a: Priority, b: Priority | undefined): Priority =>
  priorities.find((priority) => priority === a || priority === b) ?? a;
