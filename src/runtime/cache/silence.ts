/** Nothing came for so long that the connection must be taken for dead. */
export class SilenceError extends Error {
  override readonly name = 'SilenceError';

  constructor(silenceMs: number) {
    super(`nothing came for ${silenceMs} ms`);
  }
}

/** A signal that is aborted by another, or when nothing was {@link heard} for a time. */
export class Silence {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #abort = () => this.#controller.abort(this.#outer.reason);

  constructor(outer: AbortSignal, silenceMs: number) {
    this.#outer = outer;
    this.#timer = setTimeout(() => this.#controller.abort(new SilenceError(silenceMs)), silenceMs);
    outer.addEventListener('abort', this.#abort, { once: true });
    if (outer.aborted) this.#abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  heard(): void {
    this.#timer.refresh();
  }

  /** To be called in the end: no longer listens to the outer signal. */
  end(): void {
    clearTimeout(this.#timer);
    this.#outer.removeEventListener('abort', this.#abort);
  }
}
