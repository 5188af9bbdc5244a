/** Does the work for each item, for up to sixteen at a time. */
export async function forEachOf<T>(items: Iterable<T>, work: (item: T) => Promise<unknown>): Promise<void> {
  // Shared: a worker takes the next item that no other has taken.
  const left = items[Symbol.iterator]();
  const worker = async (): Promise<void> => {
    for (let next = left.next(); next.done !== true; next = left.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}
