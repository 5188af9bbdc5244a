import { expect, test } from '@jest/globals';
import type { History, LedgerWrite, Tenure } from '../integration/elections/environment/history.ts';
import type { JournalLine } from '../integration/elections/environment/journal.ts';
import { judge } from '../integration/elections/environment/verdict.ts';

const lock = 'lock';
const tenure = (identity: string, from: number, until: number): Tenure => ({
  lock,
  identity,
  from,
  until,
  renewedAt: [from],
});

/** `one` leads from 100 to 200, `two` from 300 on. */
const tenures = [tenure('one', 100, 200), tenure('two', 300, Number.POSITIVE_INFINITY)];

const history = (ledgerWrites: readonly LedgerWrite[] = []): History => ({
  tenures: new Map([[lock, tenures]]),
  ledgerWrites,
  leaseWrites: new Map(),
});

const begun = (identity: string, at: number, passedAt = at): JournalLine => ({
  type: 'begun',
  lock,
  identity,
  passedAt,
  at,
});

const write = (identity: string, precondition: number, code: number, receivedAt: number): LedgerWrite => ({
  lock,
  identity,
  precondition,
  code,
  receivedAt,
});

const violations = (line: JournalLine, frozen = { from: 0, until: 0 }): readonly string[] =>
  judge(history(), [{ lines: [line], frozen: [frozen] }]).violations.map(({ what }) => what);

test('requests that begin during the own tenure are no violations', () => {
  const lines = [begun('one', 150), begun('two', 350), begun('two', 1_000_000)];
  const verdict = judge(history(), [{ lines, frozen: [] }]);
  expect(verdict).toMatchObject({ violations: [], elections: 1, begun: 3 });
});

test('requests that begin after the tenure, before it, or without one are violations', () => {
  expect(violations(begun('one', 350))).toEqual(['one began a request 150.0 ms after it no longer held lock']);
  expect(violations(begun('two', 250))).toEqual(['two began a request 50.0 ms before it held lock']);
  expect(violations(begun('three', 150))).toEqual(['three began a request and has never held lock']);
});

test('leading before the tenure is a violation', () => {
  const line = { type: 'leading', lock, identity: 'two', at: 250 } as const;
  expect(violations(line)).toEqual(['two called itself leader 50.0 ms before it held lock']);
});

test('only a request of a process that was frozen behind the fence is excused', () => {
  expect(violations(begun('one', 350, 150), { from: 150, until: 349 })).toEqual([]);
  expect(violations(begun('one', 350, 250), { from: 260, until: 349 })).toHaveLength(1);
  expect(violations(begun('one', 350, 150), { from: 0, until: 149 })).toHaveLength(1);
});

test('a late write that succeeds after a write of the next leader is a violation', () => {
  const own = [write('one', 1, 200, 150), write('two', 2, 200, 310)];
  const refused = judge(history([...own, write('one', 2, 409, 320)]), []);
  expect(refused).toMatchObject({ violations: [], late: { refused: 1, beforeTheNextWrite: 0 } });
  const changed = judge(history([...own, write('one', 3, 200, 320)]), []);
  const what = "a write of one has changed lock's ledger after one of its successor two";
  expect(changed.violations).toMatchObject([{ lock, what }]);
  const between = judge(history([write('one', 1, 200, 305), write('two', 2, 200, 310)]), []);
  expect(between).toMatchObject({ violations: [], late: { refused: 0, beforeTheNextWrite: 1 } });
});
