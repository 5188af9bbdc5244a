import type { Logger } from '../shared/logger.ts';

/**
 * The logger of one reconcile. Each line has the key and an id (`reconcileID`, as in controller-runtime). The logger is
 * created at its first line: most reconciles log nothing, and creating a logger is expensive.
 */
export class LazyLog implements Logger {
  readonly #parent: Logger;
  readonly #key: string;
  #child: Logger | undefined;

  constructor(parent: Logger, key: string) {
    this.#parent = parent;
    this.#key = key;
  }

  debug(details: object, message: string): void {
    this.#logger.debug(details, message);
  }

  info(details: object, message: string): void {
    this.#logger.info(details, message);
  }

  warn(details: object, message: string): void {
    this.#logger.warn(details, message);
  }

  error(details: object, message: string): void {
    this.#logger.error(details, message);
  }

  child(bindings: Record<string, unknown>): Logger {
    return this.#logger.child(bindings);
  }

  get #logger(): Logger {
    this.#child ??= this.#parent.child({ object: this.#key, reconcileID: crypto.randomUUID() });
    return this.#child;
  }
}
