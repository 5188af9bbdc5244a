import type { Logger } from '@echoperator/runtime';

/** A log line, with the bindings of its logger. */
export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** A logger that keeps its lines for assertions. */
export class RecordingLog implements Logger {
  readonly lines: LogLine[];
  readonly #bindings: Readonly<Record<string, unknown>>;

  constructor(lines: LogLine[] = [], bindings: Readonly<Record<string, unknown>> = {}) {
    this.lines = lines;
    this.#bindings = bindings;
  }

  /** Returns the messages of one level. */
  messages(level: LogLine['level']): string[] {
    return this.lines.filter((line) => line.level === level).map(({ message }) => message);
  }

  debug(details: object, message: string): void {
    this.#record('debug', details, message);
  }

  info(details: object, message: string): void {
    this.#record('info', details, message);
  }

  warn(details: object, message: string): void {
    this.#record('warn', details, message);
  }

  error(details: object, message: string): void {
    this.#record('error', details, message);
  }

  child(bindings: Record<string, unknown>): Logger {
    return new RecordingLog(this.lines, { ...this.#bindings, ...bindings });
  }

  #record(level: LogLine['level'], details: object, message: string): void {
    this.lines.push({ level, message, details: { ...this.#bindings, ...details } });
  }
}
