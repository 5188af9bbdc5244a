/** An AbortController that is also aborted by an outer signal. */
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

  /** Stops listening to the outer signal. Call it when the controller is no longer needed, or the listener leaks. */
  unlink(): void {
    this.#outer.removeEventListener('abort', this.#abort);
  }
}
