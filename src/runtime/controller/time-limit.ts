/**
 * Gives each reconcile a signal of its own that is aborted when its time is over, with a TimeoutError, or when all are
 * to end.
 *
 * AbortSignal.any would be shorter, but leaves a trace of each reconcile with the signal that lives as long as all do.
 */
export class TimeLimit {
  readonly #timeoutMs: number;
  readonly #running = new Set<AbortController>();

  constructor(timeoutMs: number, all: AbortSignal) {
    this.#timeoutMs = timeoutMs;
    all.addEventListener('abort', () => this.#abortAll(all.reason), { once: true });
  }

  /**
   * Starts the clock; `stop` ends it. `timedOut` tells, also after that, whether the time was over before.
   */
  start(): { readonly signal: AbortSignal; readonly stop: () => void; readonly timedOut: () => boolean } {
    const controller = new AbortController();
    this.#running.add(controller);
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

  #abortAll(reason: unknown): void {
    for (const controller of this.#running) controller.abort(reason);
  }
}
