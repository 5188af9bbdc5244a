import type { Client } from '@echoperator/runtime';
import { steady } from '../load.ts';
import { timeoutMsFor } from '../plan.ts';
import { TurnError } from '../running-operator.ts';
import { Stopwatch } from '../stopwatch.ts';

/** Creates Echos at an even pace. The operator has to serve all of them. */
export class Stream {
  readonly #stopwatch: Stopwatch;
  readonly #ending = new AbortController();
  readonly #creating: Promise<void>;

  private constructor(stopwatch: Stopwatch, client: Client, perSecond: number) {
    this.#stopwatch = stopwatch;
    const pace = { perSecond, count: Number.POSITIVE_INFINITY };
    const created = ({ metadata }: { readonly metadata: { readonly name: string } }) =>
      this.#stopwatch.created(metadata.name);
    this.#creating = steady(client, 'stream-', pace, created, this.#ending.signal);
    // `end` and `stop` await the result.
    this.#creating.catch(() => {});
  }

  static async start(client: Client, perSecond: number): Promise<Stream> {
    return new Stream(await Stopwatch.start(client), client, perSecond);
  }

  /**
   * Waits until more Echos are served than have been created by now. If the previous leader has ended, the next leader
   * must have served them.
   *
   * @throws TurnError if that takes too long.
   */
  async goesOn(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#served(this.#stopwatch.createdCount + 1, signal), this.#creating]);
  }

  /** Stops the creation of Echos, and waits until all are served. @throws TurnError if an Echo is not served in time */
  async end(signal: AbortSignal): Promise<void> {
    this.#ending.abort();
    await this.#creating;
    await this.#served(this.#stopwatch.createdCount, signal);
  }

  /** Stops the creation of Echos. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#creating.catch(() => {});
    await this.#stopwatch.stop();
  }

  async #served(count: number, signal: AbortSignal): Promise<void> {
    const timeoutMs = timeoutMsFor(count);
    const late = AbortSignal.timeout(timeoutMs);
    try {
      await this.#stopwatch.served(count, AbortSignal.any([signal, late]));
    } catch (cause) {
      if (!late.aborted || signal.aborted) throw cause;
      const { servedCount } = this.#stopwatch;
      throw new TurnError(`after ${timeoutMs} ms ${servedCount} of ${count} Echos have a Job and a status`, {
        cause,
      });
    }
  }
}
