/** The time limit of one reconcile. */
export interface ReconcileTimer {
  readonly signal: AbortSignal;
  /** Call this when the reconcile has ended. */
  readonly stop: () => void;
  /** Whether the time limit was exceeded, also after `stop`. */
  readonly timedOut: () => boolean;
  /** Resolves when the time limit is exceeded. */
  readonly expired: Promise<void>;
}

/**
 * Gives each reconcile its own signal, which is aborted after the time limit (with a TimeoutError) or with `parent`.
 *
 * AbortSignal.any would be shorter, but Node keeps its signal as long as `parent` if a reconcile leaves a listener on it.
 */
export class TimeLimit {
  readonly #timeoutMs: number;
  /** When each reconcile started, by `performance.now`. */
  readonly #running = new Map<AbortController, number>();

  constructor(timeoutMs: number, parent: AbortSignal) {
    this.#timeoutMs = timeoutMs;
    parent.addEventListener('abort', () => this.#abortAll(parent.reason), { once: true });
  }

  start(): ReconcileTimer {
    const controller = new AbortController();
    this.#running.set(controller, performance.now());
    const expired = Promise.withResolvers<void>();
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      controller.abort(new DOMException(`the reconcile took longer than ${this.#timeoutMs} ms`, 'TimeoutError'));
      expired.resolve();
    }, this.#timeoutMs);
    const stop = (): void => {
      clearTimeout(timer);
      this.#running.delete(controller);
    };
    return { signal: controller.signal, stop, timedOut: () => timedOut, expired: expired.promise };
  }

  /** How long the slowest reconcile has exceeded the time limit, in milliseconds; 0 or less if none has. */
  overrunMs(): number {
    // A Map iterates in insertion order, so the first entry is the oldest.
    const [oldestMs] = this.#running.values();
    return oldestMs === undefined ? 0 : performance.now() - oldestMs - this.#timeoutMs;
  }

  #abortAll(reason: unknown): void {
    for (const controller of this.#running.keys()) controller.abort(reason);
  }
}
