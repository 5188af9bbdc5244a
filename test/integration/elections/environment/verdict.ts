import { type History, isSuccess, type Tenure } from './history.ts';
import type { JournalLine } from './journal.ts';

/** A time in milliseconds of the monotonic clock. */
export interface Interval {
  readonly from: number;
  readonly until: number;
}

/** What one process of a candidate has done, and when it was stopped by a signal. */
export interface Testimony {
  readonly lines: readonly JournalLine[];
  readonly frozen: readonly Interval[];
}

/** Something that must never be, in a sentence. */
export interface Violation {
  readonly lock: string;
  readonly atMs: number;
  readonly what: string;
}

/** What came of comparing the candidates' journals with the audit log. */
export interface Verdict {
  readonly violations: readonly Violation[];
  /** Changes of the holder. */
  readonly elections: number;
  /** Requests that leaders have begun. */
  readonly begun: number;
  /** Writes that the API server received when their sender's time was over: sent before, or frozen on the way out. */
  readonly late: { readonly refused: number; readonly beforeTheNextWrite: number };
  /** Requests that a process had passed through its fence when it was frozen, and sent when it woke. */
  readonly frozenOnTheWayOut: number;
}

/** By how much a time of the wall clock may be wrong when it is told as one of the monotonic clock, in milliseconds. */
const toleranceMs = 2;

/**
 * Judges whether no two candidates ever were leaders at once.
 *
 * **When has another acquired a lock?** The API server commits an acquisition between its receipt of the request, which
 * its audit log tells by the wall clock, and its answer. Taken is the receipt, so that nothing is missed. It also accuses
 * nobody wrongly, since a right candidate does not even ask before its predecessor's fence has closed: it waits for the
 * release, which is sent after that, or until a leaseDuration has passed since it saw a renewal, and a renewal is seen
 * after it was sent. The receipt of a release counts in the same way.
 *
 * **When does a request begin?** Its stamp is taken by the monotonic clock where undici writes the first byte, not in the
 * code that is being tested. No program can both look at the clock and write without a moment in between: one that is
 * frozen in just that moment writes when it wakes. Only this is excused, where the journal shows that the fence was passed
 * in time and the test has frozen the process between the two; it lands late as what a network delays, and is judged so.
 *
 * **What lands late** must change nothing that a successor has begun on: once a later leader's write to the ledger has
 * succeeded, no earlier one's may.
 */
export function judge(history: History, testimonies: readonly Testimony[]): Verdict {
  const violations: Violation[] = [];
  const all = [...history.tenures.values()].flat();
  // Of one that has held a lock twice, the last counts for what lands late.
  const tenures = new Map(all.map((tenure) => [tenure.identity, tenure]));
  const byIdentity = Map.groupBy(all, ({ identity }) => identity);
  let begun = 0;
  let frozenOnTheWayOut = 0;
  for (const { lines, frozen } of testimonies) {
    for (const line of lines) {
      if (line.type !== 'begun' && line.type !== 'leading') continue;
      const its = byIdentity.get(line.identity) ?? [];
      const off = offence(line, its);
      if (line.type === 'begun') begun += 1;
      if (off === undefined) continue;
      const excused =
        line.type === 'begun' &&
        offence({ ...line, at: line.passedAt }, its) === undefined &&
        frozen.some(({ from, until }) => from <= line.at && until >= line.passedAt);
      if (excused) frozenOnTheWayOut += 1;
      else violations.push({ lock: line.lock, atMs: line.at, what: off });
    }
  }
  const late = judgeLateWrites(history, tenures, violations);
  const elections = [...history.tenures.values()].reduce((sum, { length }) => sum + Math.max(0, length - 1), 0);
  return { violations, elections, begun, late, frozenOnTheWayOut };
}

/**
 * What is wrong with what a candidate did. It may have held the lock more than once: ours, where the answer that told it of
 * the first time was lost; one on client-go also where it found its Lease free again while it tried to renew it.
 */
function offence(line: JournalLine & { type: 'begun' | 'leading' }, tenures: readonly Tenure[]): string | undefined {
  if (tenures.length === 0) {
    const what = line.type === 'begun' ? 'began a request' : 'called itself leader';
    return `${line.identity} ${what} and has never held ${line.lock}`;
  }
  const offences = tenures.map((tenure) => offenceIn(line, tenure));
  return offences.includes(undefined) ? undefined : offences.at(-1);
}

function offenceIn(line: JournalLine & { type: 'begun' | 'leading' }, tenure: Tenure): string | undefined {
  const { lock, identity, at, type } = line;
  const what = type === 'begun' ? 'began a request' : 'called itself leader';
  if (at < tenure.from - toleranceMs) return `${identity} ${what} ${ms(tenure.from - at)} before it held ${lock}`;
  // A callback may be late; what counts is what a leader does.
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
    const before = last.get(lock);
    if (before !== undefined && before.from > tenure.from) {
      const what = `a write of ${identity} has changed ${lock}'s ledger after one of its successor ${before.identity}`;
      violations.push({ lock, atMs: receivedAt, what });
    }
    last.set(lock, tenure);
    if (isLate) late.beforeTheNextWrite += 1;
  }
  return late;
}

const ms = (milliseconds: number): string => `${milliseconds.toFixed(1)} ms`;
