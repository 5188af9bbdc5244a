/** Calls `work` for each item, up to `concurrency` at a time. Rejects with the first failure. */
export async function forEachConcurrently<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
  concurrency = 16,
): Promise<void> {
  // All workers take their items from one iterator.
  const remaining = items[Symbol.iterator]();
  const worker = async (): Promise<void> => {
    for (let next = remaining.next(); next.done !== true; next = remaining.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}
