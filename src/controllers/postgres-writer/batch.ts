import type { Rendezvous } from './rendezvous.ts';

/** What a {@link Batch} is made of. */
export interface BatchOptions<Item, Result> {
  /** Does all of it at once. One result for each item, in their order: what it came to, or the Error that struck it alone. */
  readonly execute: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** Knows whether there is anybody to wait for. */
  readonly rendezvous: Rendezvous;
  /** Items at the most. */
  readonly maxItems: number;
  /** For how long the first item may wait for others, in milliseconds. */
  readonly maxWaitMs: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly sinceMs: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Gathers what many ask for at about the same time. A batch goes when nobody else is on the way, when it is full, or when
 * its first item has waited long enough; and not before the one ahead of it has ended: so a lone item goes at once, and a
 * crowd by the hundred.
 */
export class Batch<Item, Result> {
  readonly #options: BatchOptions<Item, Result>;
  readonly #waiting: Waiting<Item, Result>[] = [];
  #timer: NodeJS.Timeout | undefined;
  #executing = false;

  constructor(options: BatchOptions<Item, Result>) {
    this.#options = options;
    options.rendezvous.onNobody(() => this.#consider());
  }

  /** @throws the Error that struck this item, or what has failed the whole batch. */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, sinceMs: performance.now(), resolve, reject });
      this.#consider();
    });
  }

  #consider(): void {
    const [first] = this.#waiting;
    if (first === undefined || this.#executing) return;
    const { rendezvous, maxItems, maxWaitMs } = this.#options;
    const leftMs = first.sinceMs + maxWaitMs - performance.now();
    if (this.#waiting.length < maxItems && rendezvous.expectsMore && leftMs > 0) {
      this.#timer ??= setTimeout(() => this.#lookAgain(), leftMs);
      return;
    }
    void this.#execute(this.#waiting.splice(0, maxItems));
  }

  #lookAgain(): void {
    this.#timer = undefined;
    this.#consider();
  }

  async #execute(waiting: readonly Waiting<Item, Result>[]): Promise<void> {
    this.#executing = true;
    clearTimeout(this.#timer);
    try {
      const results = await this.#options.execute(waiting.map(({ item }) => item));
      for (const [index, { resolve, reject }] of waiting.entries()) {
        const result = results[index];
        if (result instanceof Error || result === undefined) reject(result ?? new Error('the batch left an item out'));
        else resolve(result);
      }
    } catch (error) {
      for (const { reject } of waiting) reject(error);
    } finally {
      this.#executing = false;
      this.#lookAgain();
    }
  }
}
