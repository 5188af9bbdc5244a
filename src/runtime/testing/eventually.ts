import { setTimeout as delay } from 'node:timers/promises';

/**
 * Looks until `look` returns something that is neither undefined nor false, and returns it. An error of `look` counts as
 * "not yet".
 *
 * @throws Error with `what` and, if there was one, the last error, after the timeout.
 * @throws the assertion error of `node:assert`, Jest, Vitest or Chai at once: a retry would hide a wrong state that heals.
 *   Wait for the end of the process, and assert afterwards.
 */
export async function eventually<R>(
  what: string,
  look: () => Promise<R | undefined | false>,
  timeoutMs = 30_000,
): Promise<R> {
  const deadlineMs = performance.now() + timeoutMs;
  for (let lastError: unknown; ; ) {
    try {
      const found = await look();
      if (found !== undefined && found !== false) return found;
    } catch (error) {
      if (isAssertionError(error)) throw error;
      lastError = error;
    }
    if (performance.now() > deadlineMs) {
      throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause: lastError });
    }
    await delay(25);
  }
}

/** By its shape: a test runner's errors may come from another realm, and no runner is a dependency. Jest's have no name. */
function isAssertionError(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  return 'matcherResult' in error || ('name' in error && error.name === 'AssertionError');
}
