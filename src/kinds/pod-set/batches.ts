/** How many requests are in flight at most. */
const maxBatchSize = 32;

/** The results of the items that were tried. */
export interface BatchResult<T, R> {
  readonly results: readonly R[];
  readonly failures: readonly { readonly item: T; readonly error: unknown }[];
}

/**
 * Runs `act` for each item in batches of 1, 2, 4 and so on up to 32, and stops after the first batch with a failure. So
 * a full quota refuses one pod, not five hundred (slowStartBatch in k8s.io/kubernetes/pkg/controller/replicaset).
 */
export function slowStart<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<BatchResult<T, R>> {
  const nextSize = (last: number): number => Math.min(Math.max(1, last * 2), maxBatchSize);
  return inBatches(items, act, nextSize, ({ failures }) => failures.length > 0);
}

/**
 * Runs `act` for each item in batches of 32, and stops after the first batch in which all failed. So a failure does not
 * stop the other items, but if everything is refused, only one batch is sent.
 */
export function inFullBatches<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<BatchResult<T, R>> {
  return inBatches(
    items,
    act,
    () => maxBatchSize,
    ({ results }) => results.length === 0,
  );
}

/** Waits for all its requests, also after a failure. */
async function inBatches<T, R>(
  items: readonly T[],
  act: (item: T) => Promise<R>,
  sizeAfter: (last: number) => number,
  isLast: (batch: BatchResult<T, R>) => boolean,
): Promise<BatchResult<T, R>> {
  const results: R[] = [];
  const failures: BatchResult<T, R>['failures'][number][] = [];
  for (let from = 0, size = sizeAfter(0); from < items.length; from += size, size = sizeAfter(size)) {
    const batch = await tryEach(items.slice(from, from + size), act);
    results.push(...batch.results);
    failures.push(...batch.failures);
    if (isLast(batch)) break;
  }
  return { results, failures };
}

async function tryEach<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<BatchResult<T, R>> {
  const results: R[] = [];
  const failures: BatchResult<T, R>['failures'][number][] = [];
  const tryOne = async (item: T): Promise<void> => {
    try {
      results.push(await act(item));
    } catch (error) {
      failures.push({ item, error });
    }
  };
  await Promise.all(items.map(tryOne));
  return { results, failures };
}
