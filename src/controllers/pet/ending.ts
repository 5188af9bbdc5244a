/**
 * A signal that is aborted with the first of others. AbortSignal.any would be shorter, but leaves a trace of each call with a
 * signal that lives as long as the process; this one lets go.
 */
export class Ending implements Disposable {
  readonly #controller = new AbortController();
  readonly #others: readonly AbortSignal[];

  constructor(...others: readonly (AbortSignal | undefined)[]) {
    this.#others = others.filter((other) => other !== undefined);
    for (const other of this.#others) other.addEventListener('abort', this.#end);
    this.#end();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const other of this.#others) other.removeEventListener('abort', this.#end);
  }

  readonly #end = (): void => {
    const first = this.#others.find((other) => other.aborted);
    if (first !== undefined) this.#controller.abort(first.reason);
  };
}
