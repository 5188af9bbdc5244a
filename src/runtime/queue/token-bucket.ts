/** A rate that holds over all, with room for a burst; as golang.org/x/time/rate, which client-go limits retries by. */
export class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #maxWaitMs: number;
  #tokens: number;
  #countedAtMs = performance.now();

  /**
   * @param options.perSecond tokens that come in each second; Infinity for as many as are wanted.
   * @param options.burst tokens that there are at first, and at most.
   * @param options.maxWaitMs nobody waits longer: beyond that the rate does not hold.
   */
  constructor(options: { readonly perSecond: number; readonly burst: number; readonly maxWaitMs: number }) {
    const { perSecond, burst, maxWaitMs } = options;
    if (!(perSecond > 0)) throw new RangeError(`a rate is more than 0 a second, not ${perSecond}`);
    if (!(burst >= 1)) throw new RangeError(`a burst is of 1 at least, not ${burst}`);
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#maxWaitMs = maxWaitMs;
    this.#tokens = burst;
  }

  /** Takes a token, and tells in how many milliseconds it will be there. */
  take(): number {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return 0;
    const nowMs = performance.now();
    const come = ((nowMs - this.#countedAtMs) / 1000) * this.#perSecond;
    this.#countedAtMs = nowMs;
    // Debts end where nobody waits any longer, or a storm of failures would be felt long after it is over.
    const least = (-this.#maxWaitMs / 1000) * this.#perSecond;
    this.#tokens = Math.max(Math.min(this.#tokens + come, this.#burst) - 1, least);
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#perSecond) * 1000;
  }
}
