/** Counts the work in flight that may still add an item to a {@link Batch}. */
export class InFlightCount {
  #count = 0;
  readonly #onZero = new Set<() => void>();

  get isZero(): boolean {
    return this.#count === 0;
  }

  /** Calls the listener whenever the count becomes zero. */
  onZero(listener: () => void): void {
    this.#onZero.add(listener);
  }

  /** Runs work that may add items. It is counted until it ends, except while it waits for a batch. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#count += 1;
    try {
      return await work();
    } finally {
      this.#decrement();
    }
  }

  /** Waits for a batch, within {@link during}. */
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

/** What a {@link Batch} is made of. */
export interface BatchOptions<Item, Result> {
  /** Executes all items at once. Returns one result for each item, in their order; an Error rejects that item alone. */
  readonly execute: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** How many items are executed at once. Default: any number. */
  readonly maxItems?: number;
  /** Lets the first item wait for work in flight, for so many milliseconds at the most. Default: it does not wait. */
  readonly gather?: { readonly inFlight: InFlightCount; readonly maxWaitMs: number };
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly sinceMs: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Group commit. A batch is executed when it is full, or when no work in flight may add to it; batches run one at a time. An item
 * that is added while a batch is executed goes with the next one, so the call that executes it begins after it was added.
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

  /** @throws the item's own Error, or what `execute` throws. */
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
        if (result instanceof Error || result === undefined) reject(result ?? new Error('the batch left an item out'));
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
