/**
 * Aborts its signal with a TimeoutError after a time. The time stands still while {@link excluding} waits, so that a
 * throttle does not use it up. Dispose of it to stop the timer.
 */
export class PausableTimeLimit implements Disposable {
  readonly #controller = new AbortController();
  #remainingMs: number;
  #startedAtMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #excluded = 0;

  constructor(limitMs: number) {
    this.#remainingMs = limitMs;
    this.#start();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Calls `wait`. The time until its promise settles does not count. */
  async excluding<R>(wait: () => Promise<R>): Promise<R> {
    if (this.#excluded === 0) this.#stop();
    this.#excluded += 1;
    try {
      return await wait();
    } finally {
      this.#excluded -= 1;
      if (this.#excluded === 0) this.#start();
    }
  }

  [Symbol.dispose](): void {
    this.#stop();
    // A reconcile that has not ended must not start the timer again.
    this.#excluded = Infinity;
  }

  #start(): void {
    this.#startedAtMs = performance.now();
    const end = () => this.#controller.abort(new DOMException('the time limit is over', 'TimeoutError'));
    this.#timer = setTimeout(end, Math.max(0, this.#remainingMs));
  }

  #stop(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#remainingMs -= performance.now() - this.#startedAtMs;
  }
}
