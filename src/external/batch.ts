interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Executes items together. Batches run one at a time. An item that is added while a batch runs belongs to the next one,
 * so every item is executed by a call that begins after it was added.
 */
export class Batch<Item, Result> {
  readonly #executeAll: (items: readonly Item[]) => Promise<readonly Result[]>;
  #waiting: Waiting<Item, Result>[] = [];
  #isExecuting = false;

  /** @param execute executes all items together. Returns one result per item, in the same order. */
  constructor(execute: (items: readonly Item[]) => Promise<readonly Result[]>) {
    this.#executeAll = execute;
  }

  /** @throws any error of `execute`. */
  async add(item: Item): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.#waiting.push({ item, resolve, reject });
    if (!this.#isExecuting) void this.#execute();
    return promise;
  }

  async #execute(): Promise<void> {
    this.#isExecuting = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        const results = await this.#executeAll(batch.map(({ item }) => item));
        for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#isExecuting = false;
  }
}
