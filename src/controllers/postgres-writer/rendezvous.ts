/**
 * Tells those who wait for company whether any may still come. Whoever may come to a meeting is counted for as long as it
 * takes, but for the time in which it waits there itself.
 */
export class Rendezvous {
  #onTheWay = 0;
  readonly #listeners = new Set<() => void>();

  /** Whether somebody is on the way. */
  get expectsMore(): boolean {
    return this.#onTheWay > 0;
  }

  /** Calls back when nobody is on the way any more. */
  onNobody(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Does the work of one who may come. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#onTheWay += 1;
    try {
      return await work();
    } finally {
      this.#left();
    }
  }

  /** Has arrived, and waits; to be called within {@link during}. */
  async waiting<T>(wait: () => Promise<T>): Promise<T> {
    const waited = wait();
    this.#left();
    try {
      return await waited;
    } finally {
      this.#onTheWay += 1;
    }
  }

  #left(): void {
    this.#onTheWay -= 1;
    if (this.#onTheWay === 0) for (const listener of this.#listeners) listener();
  }
}
