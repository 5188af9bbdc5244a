/** An AbortController that an outer signal aborts too. */
export class LinkedController {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal;
  readonly #abort = () => this.#controller.abort(this.#outer.reason);

  constructor(outer: AbortSignal) {
    this.#outer = outer;
    outer.addEventListener('abort', this.#abort, { once: true });
    if (outer.aborted) this.#abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** To be called in the end: no longer listens to the outer signal. */
  unlink(): void {
    this.#outer.removeEventListener('abort', this.#abort);
  }
}
