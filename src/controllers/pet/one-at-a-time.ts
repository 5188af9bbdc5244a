/** Lets those who come with the same key do their work one after the other, in the order in which they came. */
export class OneAtATime {
  readonly #last = new Map<string, Promise<unknown>>();

  /** How many keys are being worked on. */
  get size(): number {
    return this.#last.size;
  }

  /**
   * Waits for its turn and does the work.
   *
   * @throws what the work throws; the signal's reason where it is aborted before its turn.
   */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const ended = Promise.withResolvers<void>();
    const turn = Promise.all([before, ended.promise]);
    this.#last.set(key, turn);
    try {
      if (before !== undefined) await Promise.race([before, aborted(signal)]);
      signal.throwIfAborted();
      return await work();
    } finally {
      ended.resolve();
      void turn.then(() => {
        if (this.#last.get(key) === turn) this.#last.delete(key);
      });
    }
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
