import { destination, type Logger, pino } from 'pino';

/** A storm of lines is written in pieces of this size, bytes, in place of a system call for each line. */
const pieceBytes = 4096;

/** No line waits longer. */
const flushMs = 100;

/** What is used of a process. */
interface Exiting {
  once(event: 'exit', listener: () => void): unknown;
}

/**
 * A log whose lines are gathered for a moment and written together; what waits when the process exits is written then.
 * Only a process that is killed loses lines, those of its last 100 ms.
 *
 * @param bindings stand in each line.
 */
export function openLog(process: Exiting, level: string, bindings: Readonly<Record<string, unknown>>): Logger {
  const lines = destination({ fd: 1, sync: true, minLength: pieceBytes, periodicFlush: flushMs });
  process.once('exit', () => lines.flushSync());
  return pino({ level, base: { ...bindings } }, lines);
}
