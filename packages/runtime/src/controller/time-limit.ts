/** The time limit of one reconcile. */
export interface ReconcileTimer {
  readonly signal: AbortSignal;
  /** Call this when the reconcile has ended. */
  stop(): void;
  /** Whether the time limit was exceeded, also after `stop`. */
  timedOut(): boolean;
  /** Resolves when the time limit is exceeded. */
  readonly expired: Promise<void>;
}

/**
 * Gives each reconcile its own signal, which is aborted after the time limit (with a TimeoutError) or with `parent`.
 *
 * AbortSignal.any would be shorter. But if a reconcile leaves a listener on its signal, Node keeps that signal as long
 * as `parent`.
 */
export class TimeLimit {
  readonly #timeoutMs: number;
  /**
   * When each reconcile started, by `performance.now`. A Map iterates in insertion order, so the first is the oldest.
   */
  readonly #running = new Map<RunningReconcile, number>();
  /**
   * One timer for all reconciles, because nearly all end in time. It fires when the oldest one would exceed the limit.
   */
  #timer: NodeJS.Timeout | undefined;

  constructor(timeoutMs: number, parent: AbortSignal) {
    this.#timeoutMs = timeoutMs;
    parent.addEventListener('abort', () => this.#abortAll(parent.reason), { once: true });
  }

  start(): ReconcileTimer {
    const running = new RunningReconcile((stopped) => this.#running.delete(stopped));
    this.#running.set(running, performance.now());
    if (this.#timer === undefined) this.#setTimer(this.#timeoutMs);
    return running;
  }

  #setTimer(delayMs: number): void {
    this.#timer = setTimeout(() => this.#expire(), delayMs).unref();
  }

  #expire(): void {
    this.#timer = undefined;
    for (const [running, startedAtMs] of this.#running) {
      if (running.timedOut()) continue;
      // A timer may fire a little early.
      const leftMs = startedAtMs + this.#timeoutMs - performance.now();
      if (leftMs > 1) {
        this.#setTimer(leftMs);
        return;
      }
      running.expire(new DOMException(`the reconcile took longer than ${this.#timeoutMs} ms`, 'TimeoutError'));
    }
  }

  /** How long the slowest reconcile has exceeded the time limit, in milliseconds; 0 or less if none has. */
  overrunMs(): number {
    const [oldestMs] = this.#running.values();
    return oldestMs === undefined ? 0 : performance.now() - oldestMs - this.#timeoutMs;
  }

  #abortAll(reason: unknown): void {
    for (const running of this.#running.keys()) running.abort(reason);
  }
}

class RunningReconcile implements ReconcileTimer {
  readonly #controller = new AbortController();
  readonly #expired = Promise.withResolvers<void>();
  readonly #stopped: (self: RunningReconcile) => void;
  #timedOut = false;

  constructor(stopped: (self: RunningReconcile) => void) {
    this.#stopped = stopped;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get expired(): Promise<void> {
    return this.#expired.promise;
  }

  stop(): void {
    this.#stopped(this);
  }

  timedOut(): boolean {
    return this.#timedOut;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  expire(reason: DOMException): void {
    this.#timedOut = true;
    this.#controller.abort(reason);
    this.#expired.resolve();
  }
}
