/** Options of a {@link Batch}. */
interface BatchOptions<Item, Result> {
  /** Executes all items together. Returns one result per item, in the same order. An Error rejects only that item. */
  readonly execute: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** The most items of a batch. Default: no limit. */
  readonly maxItems?: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Group commit. Executes an item at once if no batch runs. Items that are added while a batch runs form the next ones, so batches grow with
 * the load, and every item is executed by a call that begins after it was added.
 */
export class Batch<Item, Result> {
  readonly #options: BatchOptions<Item, Result>;
  readonly #waiting: Waiting<Item, Result>[] = [];
  #isExecuting = false;

  constructor(options: BatchOptions<Item, Result>) {
    this.#options = options;
  }

  /** @throws the Error of the item, or any error of `execute`. */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (!this.#isExecuting) void this.#executeAll();
    });
  }

  async #executeAll(): Promise<void> {
    this.#isExecuting = true;
    const { maxItems = Number.POSITIVE_INFINITY } = this.#options;
    while (this.#waiting.length > 0) await this.#execute(this.#waiting.splice(0, maxItems));
    this.#isExecuting = false;
  }

  async #execute(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#options.execute(batch.map(({ item }) => item));
      for (const [index, { resolve, reject }] of batch.entries()) {
        const result = results[index];
        if (result instanceof Error || result === undefined)
          reject(result ?? new Error('the batch returned no result for an item'));
        else resolve(result);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
