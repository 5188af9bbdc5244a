/** What a {@link Batch} is made of. */
export interface BatchOptions<Item, Result> {
  /** Executes all items at once. Returns one result for each item, in their order; an Error rejects that item alone. */
  readonly execute: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** How many items are executed at once. Default: any number. */
  readonly maxItems?: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Group commit: executes an item at once when idle. Items that are added while a batch is executed wait and form the next one.
 * So an item is executed by a call that begins after the item was added.
 */
export class Batch<Item, Result> {
  readonly #options: BatchOptions<Item, Result>;
  readonly #waiting: Waiting<Item, Result>[] = [];
  #isExecuting = false;

  constructor(options: BatchOptions<Item, Result>) {
    this.#options = options;
  }

  /** @throws the item's own Error, or what `execute` throws. */
  add(item: Item): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.#waiting.push({ item, resolve, reject });
    if (!this.#isExecuting) void this.#executeAll();
    return promise;
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
        if (result instanceof Error || result === undefined) reject(result ?? new Error('the batch left an item out'));
        else resolve(result);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
