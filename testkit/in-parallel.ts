/** Does the work for each index below `count`, at most `atOnce` at a time. Rejects with the first failure. */
export async function inParallel(
  atOnce: number,
  count: number,
  work: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
