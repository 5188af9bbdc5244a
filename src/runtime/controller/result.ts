/** How a reconcile ended. */
export type Result =
  | { readonly type: 'done' }
  | { readonly type: 'requeueAfter'; readonly delayMs: number }
  | { readonly type: 'retry'; readonly error: unknown };

/** Nothing more to do until something changes. */
export const done: Result = { type: 'done' };

/**
 * Reconcile again after a time even if nothing changes: for what no watch can tell.
 *
 * @throws RangeError for a time that is none: it would mean at once, for ever.
 */
export function requeueAfter(delayMs: number): Result {
  if (!(delayMs >= 0)) throw new RangeError(`requeueAfter takes milliseconds from 0 on, not ${delayMs}`);
  return { type: 'requeueAfter', delayMs };
}

/**
 * Reconcile again with the back-off of the queue, as if `error` had been thrown, but without a line in the log beyond
 * `debug`: for a failure that the status of the object tells.
 */
export const retry = (error: unknown): Result => ({ type: 'retry', error });

/** An error that trying again cannot mend: counted and logged, and the key rests until its object changes. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError';
}
