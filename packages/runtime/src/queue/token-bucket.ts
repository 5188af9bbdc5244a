/** A rate limit with a burst, like golang.org/x/time/rate, which client-go uses for retries. */
export class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #maxWaitMs: number;
  #tokens: number;
  #countedAtMs = performance.now();

  /**
   * @param options.perSecond tokens added per second; above 0. Infinity: no limit.
   * @param options.burst the initial and the largest number of tokens; at least 1.
   * @param options.maxWaitMs the longest wait. A caller never waits longer, even if that exceeds the rate. Callers that
   *   would wait longer wait for `maxWaitMs` / 2 to `maxWaitMs`, at random, so that they do not return all at once.
   */
  constructor(options: { readonly perSecond: number; readonly burst: number; readonly maxWaitMs: number }) {
    const { perSecond, burst, maxWaitMs } = options;
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#maxWaitMs = maxWaitMs;
    this.#tokens = burst;
  }

  /** Takes a token and returns how long to wait for it. Whole milliseconds, because that is a timer's resolution. */
  take(): number {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return 0;
    const nowMs = performance.now();
    const accrued = ((nowMs - this.#countedAtMs) / 1000) * this.#perSecond;
    this.#countedAtMs = nowMs;
    // Limit the debt to the longest wait. Otherwise a burst of failures would delay retries long after it ended.
    const least = (-this.#maxWaitMs / 1000) * this.#perSecond;
    this.#tokens = Math.max(Math.min(this.#tokens + accrued, this.#burst) - 1, least);
    // Subtract the rounding error of the sum, which would otherwise add a millisecond.
    const waitMs = (-this.#tokens / this.#perSecond) * 1000 - 1e-6;
    const spread = this.#tokens > least ? 1 : 1 - Math.random() / 2;
    return this.#tokens >= 0 ? 0 : Math.ceil(waitMs * spread);
  }
}
