/** Waits that double from `initialMs` to `maxMs`, each with ±50 % jitter. */
export class Backoff {
  readonly #initialMs: number;
  readonly #maxMs: number;
  #nextMs: number;

  constructor(options: { readonly initialMs: number; readonly maxMs: number }) {
    this.#initialMs = options.initialMs;
    this.#maxMs = options.maxMs;
    this.#nextMs = options.initialMs;
  }

  /** The next wait, in milliseconds. */
  next(): number {
    const baseMs = this.#nextMs;
    this.#nextMs = Math.min(baseMs * 2, this.#maxMs);
    return baseMs * (0.5 + Math.random());
  }

  reset(): void {
    this.#nextMs = this.#initialMs;
  }
}
