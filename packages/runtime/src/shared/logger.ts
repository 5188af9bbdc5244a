/** The logger interface of the runtime. A pino logger implements it. */
export interface Logger {
  debug(details: object, message: string): void;
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
  /** Returns a logger that adds these members to each line. */
  child(bindings: Record<string, unknown>): Logger;
}
