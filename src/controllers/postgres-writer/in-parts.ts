import { isBusy, RowBusyError, RowRefusedError, tableReasonOf } from './faults.ts';

/**
 * Does something to rows in one statement. One result for each, in their order: what it came to, or the Error that struck it
 * alone. With no rows it does nothing, and fails where the table cannot be used at all.
 *
 * @param lockTimeoutMs how long the lock of a row may be waited for. Undefined: as long as that of a table.
 */
export type Work<Item, Result> = (
  items: readonly Item[],
  lockTimeoutMs?: number,
) => Promise<readonly (Result | Error)[]>;

/** Of many rows one after the other may be locked, and while they are looked for the rest of their table waits. */
const quickLockTimeoutMs = 100;

/** For how long the rows that hold up the others are looked for. */
const maxSearchMs = 10_000;

/**
 * Does the work with all rows at once if it can be; else without those that are refused or locked, which are found by
 * halving.
 *
 * @throws what the work throws about no rows at all: then it is the table, or the database, that cannot be used.
 */
export async function inParts<Item, Result>(
  items: readonly Item[],
  work: Work<Item, Result>,
): Promise<readonly (Result | Error)[]> {
  try {
    return await work(items);
  } catch (error) {
    const fault = faultOf(error);
    await work([]);
    return divide(items, fault, work, performance.now() + maxSearchMs);
  }
}

async function divide<Item, Result>(
  items: readonly Item[],
  fault: Error,
  work: Work<Item, Result>,
  untilMs: number,
): Promise<readonly (Result | Error)[]> {
  if (items.length === 1) return [ownFault(fault)];
  if (performance.now() >= untilMs) {
    return items.map(() => new RowBusyError(`others before it took too long: ${fault.message}`, { cause: fault }));
  }
  const middle = items.length >> 1;
  const results: (Result | Error)[] = [];
  for (const half of [items.slice(0, middle), items.slice(middle)]) {
    const outcome = await work(half, quickLockTimeoutMs).catch(faultOf);
    results.push(...(outcome instanceof Error ? await divide(half, outcome, work, untilMs) : outcome));
  }
  return results;
}

/** The error, if the statement's rows may be its cause. */
function faultOf(error: unknown): Error {
  if (error instanceof Error && tableReasonOf(error) !== undefined) return error;
  throw error;
}

/** Its message alone: the detail quotes the row. */
const ownFault = (fault: Error): Error =>
  isBusy(fault)
    ? new RowBusyError(`somebody else has the row locked, or it takes too long: ${fault.message}`, { cause: fault })
    : new RowRefusedError(`the database refuses the row: ${fault.message}`, { cause: fault });
