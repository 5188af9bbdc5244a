import { type History, isSuccess, type Tenure } from './history.ts';
import type { JournalLine } from './journal.ts';

/** A time in milliseconds of the monotonic clock. */
export interface Interval {
  readonly from: number;
  readonly until: number;
}

/** The journal of one process of a candidate, and when the test had stopped it by a signal. */
export interface ProcessRecord {
  readonly lines: readonly JournalLine[];
  readonly frozen: readonly Interval[];
}

/** A violation of the guarantees, described in a sentence. */
interface Violation {
  readonly lock: string;
  readonly atMs: number;
  readonly what: string;
}

/** The result of comparing the candidates' journals with the audit log. */
export interface Verdict {
  readonly violations: readonly Violation[];
  /** Changes of the holder. */
  readonly elections: number;
  /** The number of requests that leaders have begun. */
  readonly begun: number;
  /**
   * Writes that the API server received after their sender had lost the lock: delayed, or sent after a freeze behind
   * the fence.
   */
  readonly late: { readonly refused: number; readonly beforeTheNextWrite: number };
  /** Requests that passed the fence before their process was frozen and were sent after it. */
  readonly frozenBehindFence: number;
}

/** The largest error when a time of the wall clock is converted to the monotonic clock, in milliseconds. */
const toleranceMs = 2;

/**
 * Checks that no two candidates led at the same time.
 *
 * **When does a candidate acquire a lock?** The API server commits the claim between receiving the request, which the
 * audit log records by the wall clock, and responding. The receipt counts, so that no violation is missed. That accuses
 * no correct candidate: it sends no claim before its predecessor's fence has closed. It waits for the release, which is
 * sent after that, or for a leaseDuration since it observed a renewal, which is later than its sending. The receipt of
 * a release counts in the same way.
 *
 * **When does a request begin?** When undici writes the first byte, by the monotonic clock, outside the code under
 * test. No program can check the clock and write in one step: if it is frozen in between, it writes after it wakes.
 * Only this is excused, if the journal shows that the request passed the fence in time and the test froze the process
 * in between. The API server receives such a write late, like one that the network delayed.
 *
 * **A late write** must not change what a successor has started from: once a later leader's write to the ledger has
 * succeeded, no earlier leader's write may succeed.
 */
export function judge(history: History, records: readonly ProcessRecord[]): Verdict {
  const violations: Violation[] = [];
  const all = [...history.tenures.values()].flat();
  // If a candidate has held a lock twice, late writes are compared with the second tenure.
  const tenures = new Map(all.map((tenure) => [tenure.identity, tenure]));
  const byIdentity = Map.groupBy(all, ({ identity }) => identity);
  let begun = 0;
  let frozenBehindFence = 0;
  for (const { lines, frozen } of records) {
    for (const line of lines) {
      if (line.type !== 'begun' && line.type !== 'leading') continue;
      const own = byIdentity.get(line.identity) ?? [];
      const violation = findViolation(line, own);
      if (line.type === 'begun') begun += 1;
      if (violation === undefined) continue;
      const isExcused =
        line.type === 'begun' &&
        findViolation({ ...line, at: line.passedAt }, own) === undefined &&
        frozen.some(({ from, until }) => from <= line.at && until >= line.passedAt);
      if (isExcused) frozenBehindFence += 1;
      else violations.push({ lock: line.lock, atMs: line.at, what: violation });
    }
  }
  const late = judgeLateWrites(history, tenures, violations);
  const elections = [...history.tenures.values()].reduce((sum, { length }) => sum + Math.max(0, length - 1), 0);
  return { violations, elections, begun, late, frozenBehindFence };
}

/**
 * How a candidate's line violates the guarantees; undefined if it does not. A candidate may have held the lock more
 * than once: ours if the response to its first claim was lost, one on client-go also if its Lease was released while it
 * tried to renew it.
 */
function findViolation(
  line: JournalLine & { type: 'begun' | 'leading' },
  tenures: readonly Tenure[],
): string | undefined {
  if (tenures.length === 0) {
    const what = line.type === 'begun' ? 'began a request' : 'called itself leader';
    return `${line.identity} ${what} and has never held ${line.lock}`;
  }
  const violations = tenures.map((tenure) => findViolationIn(tenure, line));
  return violations.includes(undefined) ? undefined : violations.at(-1);
}

function findViolationIn(tenure: Tenure, line: JournalLine & { type: 'begun' | 'leading' }): string | undefined {
  const { lock, identity, at, type } = line;
  const what = type === 'begun' ? 'began a request' : 'called itself leader';
  if (at < tenure.from - toleranceMs) return `${identity} ${what} ${ms(tenure.from - at)} before it held ${lock}`;
  // A late callback is no violation, only a late request.
  if (type === 'begun' && at > tenure.until + toleranceMs) {
    return `${identity} ${what} ${ms(at - tenure.until)} after it no longer held ${lock}`;
  }
  return undefined;
}

function judgeLateWrites(
  history: History,
  tenures: ReadonlyMap<string, Tenure>,
  violations: Violation[],
): Verdict['late'] {
  const late = { refused: 0, beforeTheNextWrite: 0 };
  const last = new Map<string, Tenure>();
  const inOrder = history.ledgerWrites.filter(({ identity }) => tenures.has(identity));
  inOrder.sort((a, b) => a.precondition - b.precondition);
  for (const { lock, identity, code, receivedAt } of inOrder) {
    const tenure = tenures.get(identity)!;
    const isLate = receivedAt > tenure.until + toleranceMs;
    if (!isSuccess(code)) {
      if (isLate) late.refused += 1;
      continue;
    }
    const previous = last.get(lock);
    if (previous !== undefined && previous.from > tenure.from) {
      const what = `a write of ${identity} has changed ${lock}'s ledger after one of its successor ${previous.identity}`;
      violations.push({ lock, atMs: receivedAt, what });
    }
    last.set(lock, tenure);
    if (isLate) late.beforeTheNextWrite += 1;
  }
  return late;
}

const ms = (milliseconds: number): string => `${milliseconds.toFixed(1)} ms`;
