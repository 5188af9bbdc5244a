import { setTimeout as delay } from 'node:timers/promises';
import type { ObjectKey } from '../../runtime/index.ts';

/** What a {@link Sweep} is made of. */
export interface SweepOptions {
  /** Takes stock, and tells of which objects something is to be done. */
  readonly take: (signal: AbortSignal) => Promise<readonly ObjectKey[]>;
  /** From the end of one to the beginning of the next, in milliseconds, give or take a tenth. */
  readonly everyMs: number;
  /** From one that failed to the next, in milliseconds: 1,000 at the least. */
  readonly retryAfterMs: number;
  /** Is told of one that failed. */
  readonly failed: (error: unknown) => void;
}

/** Takes stock at the start, then from time to time, and early where somebody asks for it. An event source. */
export class Sweep {
  readonly #options: SweepOptions;
  #asked = new AbortController();

  constructor(options: SweepOptions) {
    this.#options = options;
  }

  /** Asks for the next one to begin soon: in a second at the earliest, so that many who ask are served by one. */
  ask(): void {
    this.#asked.abort();
  }

  /** Until the signal is aborted. */
  async run(
    enqueue: (key: ObjectKey, options: { readonly priority: 'low' }) => void,
    signal: AbortSignal,
  ): Promise<void> {
    while (!signal.aborted) {
      this.#asked = new AbortController();
      const waitMs = await this.#sweep(enqueue, signal);
      await delay(Math.min(waitMs, askedAfterMs), undefined, { signal }).catch(() => {});
      const either = AbortSignal.any([signal, this.#asked.signal]);
      await delay(Math.max(0, waitMs - askedAfterMs), undefined, { signal: either }).catch(() => {});
    }
  }

  async #sweep(
    enqueue: (key: ObjectKey, options: { readonly priority: 'low' }) => void,
    signal: AbortSignal,
  ): Promise<number> {
    const { take, everyMs, retryAfterMs, failed } = this.#options;
    try {
      for (const key of await take(signal)) enqueue(key, { priority: 'low' });
      return everyMs * (0.9 + Math.random() / 5);
    } catch (error) {
      if (!signal.aborted) failed(error);
      return Math.max(retryAfterMs, askedAfterMs);
    }
  }
}

/** One that was asked for begins so long after the one before, in milliseconds. */
const askedAfterMs = 1000;
