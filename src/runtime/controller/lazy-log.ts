import type { Logger } from '../observability/index.ts';

/** A child logger that is created at its first line: most reconciles log nothing, and creating one is expensive. */
export class LazyLog implements Logger {
  readonly #parent: Logger;
  readonly #bindings: Record<string, unknown>;
  #child: Logger | undefined;

  constructor(parent: Logger, bindings: Record<string, unknown>) {
    this.#parent = parent;
    this.#bindings = bindings;
  }

  debug(details: object, message: string): void {
    this.#made.debug(details, message);
  }

  info(details: object, message: string): void {
    this.#made.info(details, message);
  }

  warn(details: object, message: string): void {
    this.#made.warn(details, message);
  }

  error(details: object, message: string): void {
    this.#made.error(details, message);
  }

  child(bindings: Record<string, unknown>): Logger {
    return this.#made.child(bindings);
  }

  get #made(): Logger {
    this.#child ??= this.#parent.child(this.#bindings);
    return this.#child;
  }
}
