/**
 * Resolves after a time, or as soon as the signal aborts. It uses the global timers, which a simulation replaces; those of
 * `node:timers/promises` a test runner may load in a way that nobody can replace.
 */
export async function pause(durationMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const end = () => resolve();
  const timer = setTimeout(end, durationMs);
  signal?.addEventListener('abort', end, { once: true });
  await promise;
  clearTimeout(timer);
  signal?.removeEventListener('abort', end);
}

/** Resolves in the next turn of the event loop, so that what waits for it goes first. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
