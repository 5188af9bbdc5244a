/** How a reconcile ended. */
export type Result =
  | { readonly type: 'done' }
  | { readonly type: 'requeueAfter'; readonly delayMs: number }
  | { readonly type: 'retry'; readonly error: unknown };

/** Do nothing until something changes. */
export const done: Result = { type: 'done' };

/**
 * Reconcile again after a delay even if nothing changes, for state that no watch covers.
 *
 * @throws RangeError for a delay that is negative or not a number: it would cause a hot loop.
 */
export function requeueAfter(delayMs: number): Result {
  if (!(delayMs >= 0)) throw new RangeError(`delayMs of requeueAfter must be at least 0, is ${delayMs}`);
  return { type: 'requeueAfter', delayMs };
}

/**
 * Retry with the backoff of the queue, as if `error` had been thrown, but log it only at `debug`: for a failure that the
 * object's status reports.
 */
export const retry = (error: unknown): Result => ({ type: 'retry', error });

/** An error that a retry cannot fix. It is counted and logged; the key is reconciled again only when something changes. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError';
}
