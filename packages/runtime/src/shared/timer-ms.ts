/** The longest delay of a timer, in milliseconds. Node fires a timer with a longer delay immediately. */
export const maxTimerMs: number = 2 ** 31 - 1;

/**
 * Returns the value of a time option.
 *
 * @throws RangeError for a time that is not positive or too long for a timer.
 */
export function requireTimerMs(name: string, timeMs: number | undefined): number | undefined {
  if (timeMs === undefined || (timeMs > 0 && timeMs <= maxTimerMs)) return timeMs;
  throw new RangeError(`${name} must be above 0 and at most ${maxTimerMs} ms, is ${timeMs}`);
}
