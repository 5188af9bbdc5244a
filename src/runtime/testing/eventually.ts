import { setTimeout as delay } from 'node:timers/promises';

/**
 * Looks until `look` returns something that is neither undefined nor false, and returns it.
 *
 * @throws Error with `what` and, if there was one, the last error, after the timeout.
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
      lastError = error;
    }
    if (performance.now() > deadlineMs) {
      throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause: lastError });
    }
    await delay(25);
  }
}
