/** Is told what the queue does; the metrics hang here. All optional calls are synchronous and must not throw. */
export interface QueueObserver {
  added?(): void;
  /** A key is to be added after a pause, whether it failed or asked for it. */
  retried?(): void;
  /** How many keys wait now, of one priority. Default: 0. */
  depth?(items: number, priority?: number): void;
  /** Seconds from the add to the start of the work. */
  waited?(seconds: number): void;
  /** A worker has been given the key. */
  started?(key: string): void;
  /** The worker has given it back. */
  finished?(key: string): void;
}

/** Options of a {@link WorkQueue}. */
export interface WorkQueueOptions {
  /** The pause after an item's first failure; it doubles with each. Default 5 (as client-go). */
  readonly initialBackoffMs?: number;
  /** The longest pause between two tries. Default 60,000. */
  readonly maxBackoffMs?: number;
  readonly observer?: QueueObserver;
}

/** A timer set for longer than this Node fires at once. */
const maxTimerMs = 2 ** 31 - 1;

/**
 * Keys waiting for a worker. A key waits once however often it is added; it is never with two workers: added while
 * one works on it, it waits until {@link WorkQueue.done}. First come, first served.
 */
export class WorkQueue {
  readonly #initialBackoffMs: number;
  readonly #maxBackoffMs: number;
  readonly #observer: QueueObserver;
  /** Waiting keys in order, with the time of the add (performance.now). */
  readonly #waiting = new Map<string, number>();
  readonly #working = new Set<string>();
  /** Added while a worker had them. */
  readonly #again = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #timers = new Map<string, { readonly timer: NodeJS.Timeout; readonly dueMs: number }>();
  readonly #idleWorkers: ((key: string | undefined) => void)[] = [];
  #closed = false;

  constructor(options: WorkQueueOptions = {}) {
    this.#initialBackoffMs = options.initialBackoffMs ?? 5;
    this.#maxBackoffMs = options.maxBackoffMs ?? 60_000;
    this.#observer = options.observer ?? {};
  }

  /** Waiting now; keys with a worker or a timer do not count. */
  get depth(): number {
    return this.#waiting.size;
  }

  add(key: string): void {
    if (this.#closed) return;
    if (this.#working.has(key)) {
      this.#again.add(key);
      return;
    }
    if (this.#waiting.has(key)) return;
    this.#observer.added?.();
    const idle = this.#idleWorkers.shift();
    if (idle === undefined) {
      this.#waiting.set(key, performance.now());
      this.#observer.depth?.(this.depth);
      return;
    }
    this.#working.add(key);
    this.#observer.waited?.(0);
    idle(key);
  }

  /** Adds the key after a time. Of two times for one key the earlier holds. */
  addAfter(key: string, delayMs: number): void {
    if (this.#closed) return;
    const dueMs = performance.now() + delayMs;
    const pending = this.#timers.get(key);
    if (pending !== undefined) {
      if (pending.dueMs <= dueMs) return;
      clearTimeout(pending.timer);
    }
    this.#startTimer(key, dueMs, delayMs);
  }

  /** Adds the key after a pause that doubles with each failure since the last {@link forget}, with up to a tenth more. */
  addRateLimited(key: string): void {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    this.#observer.retried?.();
    const pauseMs = Math.min(this.#initialBackoffMs * 2 ** failures, this.#maxBackoffMs);
    this.addAfter(key, pauseMs * (1 + Math.random() / 10));
  }

  /** The key has been dealt with: its next failure is its first. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** The next key, when there is one; undefined once the queue is closed. Give it back with {@link done}. */
  next(): Promise<string | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    const [first] = this.#waiting;
    if (first === undefined) return new Promise((resolve) => this.#idleWorkers.push(resolve));
    const [key, addedAtMs] = first;
    this.#waiting.delete(key);
    this.#working.add(key);
    this.#observer.depth?.(this.depth);
    this.#observer.waited?.((performance.now() - addedAtMs) / 1000);
    return Promise.resolve(key);
  }

  /** The worker has finished with the key; if it was added meanwhile, it waits again. */
  done(key: string): void {
    this.#working.delete(key);
    if (this.#again.delete(key)) this.add(key);
  }

  /** Hands out nothing more; what waits is dropped: a level-based reconciler finds it again at the next start. */
  close(): void {
    this.#closed = true;
    this.#waiting.clear();
    this.#again.clear();
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#observer.depth?.(0);
    for (const idle of this.#idleWorkers.splice(0)) idle(undefined);
  }

  #startTimer(key: string, dueMs: number, leftMs: number): void {
    const timer = setTimeout(
      () => {
        if (leftMs > maxTimerMs) {
          this.#startTimer(key, dueMs, dueMs - performance.now());
          return;
        }
        this.#timers.delete(key);
        this.add(key);
      },
      Math.min(leftMs, maxTimerMs),
    );
    this.#timers.set(key, { timer, dueMs });
  }
}
