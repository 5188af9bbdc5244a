import { FairQueue, type Priority, WaitingKey } from './fair-queue.ts';
import { TokenBucket } from './token-bucket.ts';

/** Is told what the queue does; the metrics hang here. All optional calls are synchronous and must not throw. */
export interface QueueObserver {
  added?(): void;
  /** A key is to be added after a pause, whether it failed or asked for it. */
  retried?(): void;
  /** How many keys wait now, of one priority: 0 is `normal`, -100 `low` (controller-runtime's numbers). Default: 0. */
  depth?(items: number, priority?: number): void;
  /** Seconds from the add to the start of the work. */
  waited?(seconds: number): void;
  /** A worker has been given the key. */
  started?(key: string): void;
  /** The worker has given it back. */
  finished?(key: string): void;
}

/** When a key that failed is tried again. */
export interface RetryOptions {
  /** The pause after an item's first failure; it doubles with each. Default 5 (as client-go). */
  readonly initialBackoffMs?: number;
  /** The longest pause between two tries, to which up to a tenth is added. Default 60,000. */
  readonly maxBackoffMs?: number;
  /**
   * Retries of all keys together, a second, as long as that makes none wait longer than `maxBackoffMs`. Default 10 (as
   * client-go); Infinity: no limit.
   */
  readonly retriesPerSecond?: number;
  /** Retries that may come at once before that limit holds. Default 100 (as client-go). */
  readonly retryBurst?: number;
}

/** Options of a {@link WorkQueue}. */
export interface WorkQueueOptions extends RetryOptions {
  readonly observer?: QueueObserver;
}

/** A timer set for longer than this Node fires at once. */
const maxTimerMs = 2 ** 31 - 1;

/** After so many keys of normal priority in a row a waiting one of low priority has its turn. */
const normalInARow = 32;

const observedPriority = { normal: 0, low: -100 } as const;

interface Timer {
  readonly timer: NodeJS.Timeout;
  readonly dueMs: number;
  readonly priority: Priority;
}

/**
 * Keys waiting for a worker. A key waits once however often it is added; it is never with two workers: added while
 * one works on it, it waits until {@link WorkQueue.done}.
 *
 * Keys of normal priority go first, but for every 33rd turn: low priority never starves, and costs the others at most
 * that. Within a priority, namespaces have turns: one with 10,000 waiting keys does not delay another's single one.
 * Within a namespace, first come, first served. All operations are O(1), but for the timers' O(log n).
 */
export class WorkQueue {
  readonly #initialBackoffMs: number;
  readonly #maxBackoffMs: number;
  readonly #retries: TokenBucket;
  readonly #observer: QueueObserver;
  readonly #waiting = new Map<string, WaitingKey>();
  #queues: Readonly<Record<Priority, FairQueue>> = { normal: new FairQueue(), low: new FairQueue() };
  /** How many keys of normal priority were handed out since one of low priority had to wait for them. */
  #passes = 0;
  /** The keys that workers have, with the priority that they were handed out with. */
  readonly #working = new Map<string, Priority>();
  /** Added while a worker had them. */
  readonly #again = new Map<string, Priority>();
  readonly #failures = new Map<string, number>();
  readonly #timers = new Map<string, Timer>();
  readonly #idleWorkers: ((waiting: WaitingKey | undefined) => void)[] = [];
  #closed = false;

  /** @throws RangeError for a rate of retries that would let none come. */
  constructor(options: WorkQueueOptions = {}) {
    const { initialBackoffMs = 5, maxBackoffMs = 60_000, retriesPerSecond = 10, retryBurst = 100 } = options;
    this.#initialBackoffMs = initialBackoffMs;
    this.#maxBackoffMs = maxBackoffMs;
    this.#retries = new TokenBucket({ perSecond: retriesPerSecond, burst: retryBurst, maxWaitMs: maxBackoffMs });
    this.#observer = options.observer ?? {};
  }

  /** Waiting now; keys with a worker or a timer do not count. */
  get depth(): number {
    return this.#waiting.size;
  }

  /** Of several adds of a waiting key the most urgent one holds. */
  add(key: string, { priority = 'normal' }: { readonly priority?: Priority } = {}): void {
    if (this.#closed) return;
    if (this.#working.has(key)) {
      this.#again.set(key, moreUrgent(priority, this.#again.get(key)));
      return;
    }
    const waiting = this.#waiting.get(key);
    if (waiting !== undefined) {
      if (moreUrgent(priority, waiting.priority) !== waiting.priority) this.#raise(waiting);
      return;
    }
    this.#observer.added?.();
    const added = new WaitingKey(key, priority, performance.now());
    const idle = this.#idleWorkers.shift();
    if (idle === undefined) {
      this.#wait(added);
    } else {
      this.#working.set(key, priority);
      idle(added);
    }
  }

  /**
   * Adds the key after a time. Of two times for one key the earlier holds, and of two priorities the more urgent.
   */
  addAfter(key: string, delayMs: number, { priority = 'normal' }: { readonly priority?: Priority } = {}): void {
    if (this.#closed) return;
    this.#observer.retried?.();
    const dueMs = performance.now() + delayMs;
    const pending = this.#timers.get(key);
    const urgency = moreUrgent(priority, pending?.priority);
    if (pending !== undefined) {
      if (pending.dueMs <= dueMs) {
        this.#timers.set(key, { ...pending, priority: urgency });
        return;
      }
      clearTimeout(pending.timer);
    }
    this.#startTimer(key, dueMs, delayMs, urgency);
  }

  /**
   * Adds the key after a pause that doubles with each failure since the last {@link forget}, with up to a tenth more,
   * and that is longer when there are more retries than the limit allows. It comes with the priority that the worker
   * was given it with.
   */
  addRateLimited(key: string): void {
    if (this.#closed) return;
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    const pauseMs = Math.min(this.#initialBackoffMs * 2 ** failures, this.#maxBackoffMs);
    const spreadMs = pauseMs * (1 + Math.random() / 10);
    const priority = this.#working.get(key) ?? 'normal';
    this.addAfter(key, Math.max(spreadMs, this.#retries.take()), { priority });
  }

  /** The key has been dealt with: its next failure is its first. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** The next key, when there is one; undefined once the queue is closed. Give it back with {@link done}. */
  next(): Promise<string | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    const waiting = this.#take();
    if (waiting !== undefined) return Promise.resolve(this.#begin(waiting));
    return new Promise<WaitingKey | undefined>((resolve) => this.#idleWorkers.push(resolve)).then(
      (handed) => handed && this.#begin(handed),
    );
  }

  /** The worker has finished with the key; if it was added meanwhile, it waits again. */
  done(key: string): void {
    if (this.#working.delete(key)) this.#observer.finished?.(key);
    const priority = this.#again.get(key);
    if (priority === undefined) return;
    this.#again.delete(key);
    this.add(key, { priority });
  }

  /** Hands out nothing more; what waits is dropped: a level-based reconciler finds it again at the next start. */
  close(): void {
    this.#closed = true;
    this.#waiting.clear();
    this.#queues = { normal: new FairQueue(), low: new FairQueue() };
    this.#tellDepth('normal');
    this.#tellDepth('low');
    this.#again.clear();
    this.#failures.clear();
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    for (const idle of this.#idleWorkers.splice(0)) idle(undefined);
  }

  #wait(waiting: WaitingKey): void {
    this.#waiting.set(waiting.key, waiting);
    this.#queues[waiting.priority].push(waiting);
    this.#tellDepth(waiting.priority);
  }

  #raise(waiting: WaitingKey): void {
    this.#queues.low.delete(waiting);
    this.#tellDepth('low');
    waiting.priority = 'normal';
    this.#wait(waiting);
  }

  /** The key whose turn it is, which is from then on with a worker. */
  #take(): WaitingKey | undefined {
    const { normal, low } = this.#queues;
    const lowHasTurn = normal.size === 0 || this.#passes >= normalInARow;
    const waiting = (lowHasTurn ? low.shift() : undefined) ?? normal.shift();
    if (waiting === undefined) return undefined;
    this.#passes = waiting.priority === 'low' || low.size === 0 ? 0 : this.#passes + 1;
    this.#waiting.delete(waiting.key);
    this.#working.set(waiting.key, waiting.priority);
    this.#tellDepth(waiting.priority);
    return waiting;
  }

  #begin({ key, addedAtMs }: WaitingKey): string {
    this.#observer.waited?.((performance.now() - addedAtMs) / 1000);
    this.#observer.started?.(key);
    return key;
  }

  #tellDepth(priority: Priority): void {
    this.#observer.depth?.(this.#queues[priority].size, observedPriority[priority]);
  }

  #startTimer(key: string, dueMs: number, leftMs: number, priority: Priority): void {
    const timer = setTimeout(
      () => {
        const pending = this.#timers.get(key);
        if (leftMs > maxTimerMs) {
          this.#startTimer(key, dueMs, dueMs - performance.now(), pending?.priority ?? priority);
          return;
        }
        this.#timers.delete(key);
        this.add(key, { priority: pending?.priority ?? priority });
      },
      Math.min(leftMs, maxTimerMs),
    );
    this.#timers.set(key, { timer, dueMs, priority });
  }
}

const moreUrgent = (a: Priority, b: Priority | undefined): Priority =>
  a === 'normal' || b === 'normal' ? 'normal' : 'low';
