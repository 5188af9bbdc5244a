/** What the runtime asks of a logger; pino's has this shape. */
export interface Logger {
  debug(details: object, message: string): void;
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
  /** A logger that adds these members to each line. */
  child(bindings: Record<string, unknown>): Logger;
}
