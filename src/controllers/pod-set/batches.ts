/** How many requests of one kind are under way at once at the most. */
const maxWidth = 32;

/** What came of those items that were tried. */
export interface Tried<T, R> {
  readonly results: readonly R[];
  readonly failures: readonly { readonly item: T; readonly error: unknown }[];
}

/**
 * Does something with each item, in batches of 1, 2, 4 and so on up to 32, and stops after the first batch in which one
 * failed: a quota that is full refuses one pod and not five hundred (slowStartBatch in
 * k8s.io/kubernetes/pkg/controller/replicaset).
 */
export function slowStart<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<Tried<T, R>> {
  const wider = (last: number): number => Math.min(Math.max(1, last * 2), maxWidth);
  return inBatches(items, act, wider, ({ failures }) => failures.length > 0);
}

/**
 * Does something with each item, 32 at once, and stops after the first batch in which all failed: one that is refused
 * keeps no other from its turn, and where all would be refused it is not asked five hundred times.
 */
export function all<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<Tried<T, R>> {
  return inBatches(
    items,
    act,
    () => maxWidth,
    ({ results }) => results.length === 0,
  );
}

/** Nothing is under way any more when it resolves. */
async function inBatches<T, R>(
  items: readonly T[],
  act: (item: T) => Promise<R>,
  widthAfter: (last: number) => number,
  isLast: (batch: Tried<T, R>) => boolean,
): Promise<Tried<T, R>> {
  const results: R[] = [];
  const failures: Tried<T, R>['failures'][number][] = [];
  for (let from = 0, width = widthAfter(0); from < items.length; from += width, width = widthAfter(width)) {
    const batch = await tryEach(items.slice(from, from + width), act);
    results.push(...batch.results);
    failures.push(...batch.failures);
    if (isLast(batch)) break;
  }
  return { results, failures };
}

async function tryEach<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<Tried<T, R>> {
  const results: R[] = [];
  const failures: Tried<T, R>['failures'][number][] = [];
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
