import { Semaphore } from '../shared/semaphore.ts';

/** The number of concurrent writes. It is low because Events share the connections with the reconciles' requests. */
const concurrency = 4;

/** Runs writes in order, with limited concurrency. */
export class EventWriteQueue {
  readonly #writes = new Semaphore(concurrency);
  #size = 0;
  #idle = Promise.withResolvers<void>();

  /** The number of writes that have not ended. */
  get size(): number {
    return this.#size;
  }

  /** @param write starts a write; it must not reject. */
  add(write: () => Promise<void>): void {
    this.#size += 1;
    void this.#writes.use(write).finally(() => this.#onEnd());
  }

  /** Resolves when all writes have ended. */
  async waitUntilIdle(): Promise<void> {
    while (this.#size > 0) await this.#idle.promise;
  }

  #onEnd(): void {
    this.#size -= 1;
    if (this.#size > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers<void>();
  }
}
