/** The number of concurrent writes. It is low because Events share the connections with the reconciles' requests. */
const concurrency = 4;

/** Runs writes in order, with limited concurrency. */
export class EventWriteQueue {
  #queue: (() => Promise<void>)[] = [];
  /** How many writes at the start of {@link #queue} have started. */
  #started = 0;
  #inFlight = 0;
  #idle = Promise.withResolvers<void>();

  /** The number of writes that have not ended. */
  get size(): number {
    return this.#queue.length - this.#started + this.#inFlight;
  }

  /** @param write starts a write; it must not reject. */
  add(write: () => Promise<void>): void {
    this.#queue.push(write);
    this.#startNext();
  }

  /** Resolves when all writes have ended. */
  async waitUntilIdle(): Promise<void> {
    while (this.size > 0) await this.#idle.promise;
  }

  #startNext(): void {
    while (this.#inFlight < concurrency) {
      const write = this.#queue[this.#started];
      if (write === undefined) break;
      this.#started += 1;
      this.#inFlight += 1;
      void write().finally(() => this.#onEnd());
    }
    // Drop the started writes only when they are half of the array, so that each write is moved about once on average.
    if (this.#started * 2 < this.#queue.length) return;
    this.#queue = this.#queue.slice(this.#started);
    this.#started = 0;
  }

  #onEnd(): void {
    this.#inFlight -= 1;
    this.#startNext();
    if (this.size > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers<void>();
  }
}
