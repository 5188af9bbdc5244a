import { UnreadableObjectError } from '../kind/unreadable-object.ts';

/** What the queue does with the key next. */
export type Result =
  | { readonly type: 'done' }
  | { readonly type: 'requeueAfter'; readonly delayMs: number }
  | { readonly type: 'retry'; readonly error: unknown };

/** Do nothing until something changes. */
export const done: Result = { type: 'done' };

/** About 300 years. Dates cannot represent much later times. */
const maxDelayMs = 1e13;

/**
 * Requeue after a delay even if nothing changes, for state that no watch covers.
 *
 * @throws RangeError for a delay that is negative or not a number, which would cause a hot loop, or above 300 years.
 */
export function requeueAfter(delayMs: number): Result {
  if (!(delayMs >= 0 && delayMs <= maxDelayMs)) {
    const allowed = `delayMs of requeueAfter must be from 0 to ${maxDelayMs}`;
    throw new RangeError(`${allowed}, is ${delayMs}: return done to wait for a change`);
  }
  return { type: 'requeueAfter', delayMs };
}

/**
 * Retry with the backoff of the queue, as if `error` had been thrown, but log it only at `debug`: for a failure that
 * the object's status reports.
 */
export const retry = (error: unknown): Result => ({ type: 'retry', error });

/** Whether a retry cannot fix the error. */
export const isTerminal = (error: unknown): boolean =>
  error instanceof TerminalError || error instanceof UnreadableObjectError;

/**
 * An error that a retry cannot fix. It is counted and logged. The status shows its message, so the message must not
 * contain a Secret. The key is reconciled again only when something changes.
 */
export class TerminalError extends Error {
  override readonly name = 'TerminalError';
}
