/**
 * Resolves after a time, or as soon as the signal aborts.
 *
 * It uses the global timers, because a simulation replaces these. A simulation cannot replace `node:timers/promises`
 * under Jest, which copies its exports.
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

/** Resolves in the next turn of the event loop, after all callbacks of the current turn. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
