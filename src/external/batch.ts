/** Counts the operations in flight that may still add an item to a {@link Batch}. */
export class InFlightCount {
  #count = 0;
  readonly #onZero = new Set<() => void>();

  get isZero(): boolean {
    return this.#count === 0;
  }

  /** Adds a listener that is called whenever the count becomes zero. */
  onZero(listener: () => void): void {
    this.#onZero.add(listener);
  }

  /** Runs an operation that may add items. It counts until it ends, except while it is in {@link waiting}. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#count += 1;
    try {
      return await work();
    } finally {
      this.#decrement();
    }
  }

  /** Waits for a batch. Call it within {@link during}. */
  async waiting<T>(wait: () => Promise<T>): Promise<T> {
    const result = wait();
    this.#decrement();
    try {
      return await result;
    } finally {
      this.#count += 1;
    }
  }

  #decrement(): void {
    this.#count -= 1;
    if (this.#count === 0) for (const listener of this.#onZero) listener();
  }
}

/** Options of a {@link Batch}. */
export interface BatchOptions<Item, Result> {
  /** Executes all items together. Returns one result per item, in the same order. An Error rejects only that item. */
  readonly execute: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** The maximum number of items of a batch. Default: no limit. */
  readonly maxItems?: number;
  /** Waits for operations in flight that may add items, up to `maxWaitMs` milliseconds. Default: does not wait. */
  readonly gather?: { readonly inFlight: InFlightCount; readonly maxWaitMs: number };
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly sinceMs: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Group commit. Executes a batch when the batch is full, or when no operation in flight may add an item. Batches run
 * one at a time. An item that is added while a batch runs belongs to the next batch. So the call that executes an item
 * always begins after the item was added.
 */
export class Batch<Item, Result> {
  readonly #options: BatchOptions<Item, Result>;
  readonly #waiting: Waiting<Item, Result>[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isExecuting = false;

  constructor(options: BatchOptions<Item, Result>) {
    this.#options = options;
    options.gather?.inFlight.onZero(() => this.#executeIfDue());
  }

  /** @throws the Error of the item, or any error of `execute`. */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, sinceMs: performance.now(), resolve, reject });
      this.#executeIfDue();
    });
  }

  #executeIfDue(): void {
    const [first] = this.#waiting;
    if (first === undefined || this.#isExecuting) return;
    const { maxItems = Number.POSITIVE_INFINITY, gather } = this.#options;
    const leftMs = gather === undefined ? 0 : first.sinceMs + gather.maxWaitMs - performance.now();
    if (this.#waiting.length < maxItems && leftMs > 0 && gather?.inFlight.isZero === false) {
      this.#timer ??= setTimeout(() => this.#wake(), leftMs);
      return;
    }
    void this.#execute(this.#waiting.splice(0, maxItems));
  }

  #wake(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#executeIfDue();
  }

  async #execute(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    this.#isExecuting = true;
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
    } finally {
      this.#isExecuting = false;
      this.#wake();
    }
  }
}
