/**
 * Gives each reconcile a signal of its own that is aborted when its time is over, with a TimeoutError, or when all are
 * to end.
 *
 * AbortSignal.any would be shorter, but leaves a trace of each reconcile with the signal that lives as long as all do.
 */
export class TimeLimit {
  readonly #timeoutMs: number;
  /** Since when each runs (performance.now). */
  readonly #running = new Map<AbortController, number>();

  constructor(timeoutMs: number, all: AbortSignal) {
    this.#timeoutMs = timeoutMs;
    all.addEventListener('abort', () => this.#abortAll(all.reason), { once: true });
  }

  /**
   * Starts the clock; `stop` ends it. `timedOut` tells, also after that, whether the time was over before.
   */
  start(): { readonly signal: AbortSignal; readonly stop: () => void; readonly timedOut: () => boolean } {
    const controller = new AbortController();
    this.#running.set(controller, performance.now());
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      controller.abort(new DOMException(`the reconcile took longer than ${this.#timeoutMs} ms`, 'TimeoutError'));
    }, this.#timeoutMs);
    const stop = (): void => {
      clearTimeout(timer);
      this.#running.delete(controller);
    };
    return { signal: controller.signal, stop, timedOut: () => timedOut };
  }

  /** How long the slowest reconcile has gone on after its time was over; 0 or less where none has. */
  overrunMs(): number {
    // A Map goes through its keys in the order in which they were set.
    const [oldestMs] = this.#running.values();
    return oldestMs === undefined ? 0 : performance.now() - oldestMs - this.#timeoutMs;
  }

  #abortAll(reason: unknown): void {
    for (const controller of this.#running.keys()) controller.abort(reason);
  }
}
