import { destination, type Logger, pino } from 'pino';

/** Lines are buffered up to this many bytes, to save a system call per line. */
const pieceBytes = 4096;

/** A line stays in the buffer for at most this long. */
const flushMs = 100;

/** The part of `process` that {@link openLog} uses. */
interface Exiting {
  once(event: 'exit', listener: () => void): unknown;
}

/**
 * Opens a log with a buffer, which is flushed when the process exits. A process that is killed loses at most the lines
 * of its last 100 ms.
 *
 * @param bindings fields of every line.
 * @param fd where the lines go. Default 1, the standard output.
 */
export function openLog(process: Exiting, level: string, bindings: Readonly<Record<string, unknown>>, fd = 1): Logger {
  const lines = destination({ fd, sync: true, minLength: pieceBytes, periodicFlush: flushMs });
  process.once('exit', () => lines.flushSync());
  return pino({ level, base: { ...bindings } }, lines);
}
