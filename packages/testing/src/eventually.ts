import { pause } from '@echoperator/runtime/internal';

/**
 * Calls `poll` until it returns a value other than undefined and false, and returns that value. An error of `poll`
 * counts as "not yet". After the timeout it does not wait for a `poll` that hangs.
 *
 * @param description the awaited state, for the error message.
 * @param timeoutMs Default 30,000.
 * @throws Error with the description, and the last error of `poll` as its cause, after the timeout.
 * @throws an assertion error of `node:assert`, Jest, Vitest or Chai at once, because a retry would hide a temporary
 *   wrong state. Wait for a state first, and assert afterwards.
 */
export async function eventually<R>(
  description: string,
  poll: () => Promise<R | undefined | false>,
  timeoutMs = 30_000,
): Promise<R> {
  const startedAtMs = performance.now();
  const deadlineMs = startedAtMs + timeoutMs;
  for (let lastError: unknown; ; ) {
    try {
      const result = await untilDeadline(poll(), deadlineMs);
      if (result !== undefined && result !== false) return result;
    } catch (error) {
      if (isAssertionError(error)) throw error;
      // The error of an earlier poll is more informative.
      lastError = error instanceof PollHangsError ? (lastError ?? error) : error;
    }
    const leftMs = deadlineMs - performance.now();
    if (leftMs <= 0) throw new Error(`not within ${timeoutMs} ms: ${description}`, { cause: lastError });
    await pause(Math.min(pauseMs(performance.now() - startedAtMs), leftMs));
  }
}

/** The pause between two polls grows with the wait. Otherwise many concurrent tests would overload the API server. */
const pauseMs = (waitedMs: number): number => Math.min(Math.max(25, waitedMs / 10), 250);

class PollHangsError extends Error {
  override readonly name = 'PollHangsError';
}

async function untilDeadline<R>(polled: Promise<R>, deadlineMs: number): Promise<R> {
  const over = Promise.withResolvers<never>();
  // The last poll may begin at the deadline.
  const leftMs = Math.max(deadlineMs - performance.now(), 25);
  const timer = setTimeout(() => over.reject(new PollHangsError('the last poll did not end')), leftMs);
  try {
    return await Promise.race([polled, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Checks the shape instead of the class: the errors of a test runner may come from another realm, and this package
 * depends on no test runner. Jest's assertion errors have no name.
 */
function isAssertionError(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  return 'matcherResult' in error || ('name' in error && error.name === 'AssertionError');
}
