/** Limits the number of concurrent operations. Others wait, in the order of the calls. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  /** @param count how many operations may run at a time. */
  constructor(count: number) {
    this.#free = count;
  }

  /** How many operations wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Runs the operation: at once, within this call, if fewer than the limit run. @throws any error of the operation. */
  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
