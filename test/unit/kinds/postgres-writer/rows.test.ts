import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { ExternalSystemDownError } from '../../../../src/external/circuit.ts';
import type { Row, Statement } from '../../../../src/kinds/postgres-writer/statements.ts';
import { Rows } from '../../../../src/kinds/postgres-writer/tables.ts';

const refusal = (code: string): Error => Object.assign(new Error(`refused: ${code}`), { code, severity: 'ERROR' });

const students = { schema: 'public', name: 'students' };

/** A table in memory that counts its statements, and refuses, or has locked, some rows. */
class Table {
  readonly rows = new Map<string, string>();
  /** With which SQLSTATE. */
  readonly refused = new Map<string, string>();
  readonly skipped = new Set<string>();
  isLoud = false;
  readonly locked = new Set<string>();
  statements = 0;
  fault: Error | undefined;
  /** What the role lacks to write. */
  lacks: readonly string[] = [];

  /** Holds up each statement. */
  opened = Promise.resolve();

  readonly query = async <R extends object>({ text, values }: Statement): Promise<readonly R[]> => {
    // The catalogue has the table, unless the table as a whole is amiss.
    if (text.includes('pg_class'))
      return (this.fault === undefined
        ? [{ ...students, lacks: this.lacks, lacksToDelete: [] }]
        : []) as readonly object[] as readonly R[];
    this.statements += 1;
    await this.opened;
    if (this.fault !== undefined) throw this.fault;
    const [id, name = ''] = values as [string | null, string?];
    if (id === null) return [];
    if (this.locked.has(id)) throw refusal('55P03');
    const code = this.refused.get(id);
    if (code !== undefined) throw refusal(code);
    return this.#change(text, id, name) as readonly object[] as readonly R[];
  };

  /** Returns what the statement returns. */
  #change(text: string, id: string, name: string): readonly object[] {
    if (text.includes('DELETE')) {
      this.rows.delete(id);
      return [];
    }
    if (this.rows.get(id) === name) return [];
    if (!text.includes('INSERT')) return [{ id }];
    if (this.skipped.has(id)) return [{ id, written: false }];
    this.rows.set(id, this.isLoud ? name.toUpperCase() : name);
    return [{ ...row(0, this.rows.get(id)), id, written: true }];
  }
}

const neverAborted = new AbortController().signal;

let table: Table;
let rows: Rows;

beforeEach(() => {
  table = new Table();
  rows = new Rows(students, { database: table, maxStatements: 2 });
});

afterEach(() => {
  jest.restoreAllMocks();
});

/** Stops the clock, so that a table that cannot be used is not probed again, however slow the machine is. */
function stopClock(): void {
  const nowMs = performance.now();
  jest.spyOn(performance, 'now').mockReturnValue(nowMs);
}

const row = (index: number, name = 'Jane'): Row => ({ id: `ns/${index}`, name, age: 1, country: 'Peru' });

test('a statement that waits for its turn is not sent after its reconcile was aborted', async () => {
  const gate = Promise.withResolvers<void>();
  table.opened = gate.promise;
  const running = [rows.upsert(row(0), neverAborted), rows.upsert(row(1), neverAborted)];
  const given = new AbortController();
  const waiting = rows.upsert(row(2), given.signal);
  given.abort(new Error('too late'));
  gate.resolve();
  await expect(waiting).rejects.toThrow('too late');
  await Promise.all(running);
  expect([...table.rows.keys()]).toEqual(['ns/0', 'ns/1']);
});

test('a row is deleted only after a statement that still writes it has ended', async () => {
  const gate = Promise.withResolvers<void>();
  table.opened = gate.promise;
  const given = new AbortController();
  const abandoned = rows.upsert(row(0), given.signal);
  given.abort();
  table.opened = Promise.resolve();
  const deleted = rows.delete('ns/0', neverAborted);
  await setImmediate();
  gate.resolve();
  await Promise.all([abandoned, deleted]);
  expect([...table.rows.keys()]).toEqual([]);
});

/** All of them at about the same time. */
const upsertAll = (count: number, name?: string) =>
  Promise.allSettled(Array.from({ length: count }, (_, index) => rows.upsert(row(index, name), neverAborted)));

const outcomes = (settled: readonly PromiseSettledResult<unknown>[]): readonly unknown[] =>
  settled.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as Error).message));

describe('the rows of a table', () => {
  test('are written by a statement each, and at most maxStatements of them run', async () => {
    const opened = Promise.withResolvers<void>();
    table.opened = opened.promise;
    const written = upsertAll(10);
    await setImmediate();
    expect([table.statements, rows.waitingStatements]).toEqual([2, 8]);
    opened.resolve();
    await written;
    expect([table.rows.size, table.statements, rows.waitingStatements]).toEqual([10, 10, 0]);
  });

  test('report which of them were written', async () => {
    await upsertAll(2);
    expect(outcomes(await upsertAll(3))).toEqual(['unchanged', 'unchanged', 'written']);
  });

  // A constraint; a policy, which is a lack of privilege; a trigger's own word; what looks as if the whole table were
  // amiss.
  test.each(['23514', '42501', 'MY001', '42P01'])(
    'that are refused with %s are reported, and the others are written',
    async (code) => {
      for (const index of [3, 64, 65]) table.refused.set(`ns/${index}`, code);
      const found = outcomes(await upsertAll(100));
      expect(found.flatMap((outcome, index) => (outcome === 'written' ? [] : [index]))).toEqual([3, 64, 65]);
      expect(found[3]).toBe(`the database refuses the row: refused: ${code}`);
      expect(table.rows.size).toBe(97);
      // One more for each refused row shows that the table can be used.
      expect(table.statements).toBe(103);
      await rows.delete('ns/1', neverAborted);
      expect(table.rows.size).toBe(96);
    },
  );

  test('that a trigger skips are refused, and no others', async () => {
    table.skipped.add('ns/1');
    expect(outcomes(await upsertAll(3))).toEqual(['written', 'the row was not written: a trigger skips it', 'written']);
  });

  test('with current values cost one read; those that a trigger skips cost another', async () => {
    await upsertAll(1);
    table.statements = 0;
    expect(await rows.upsert(row(0), neverAborted)).toBe('unchanged');
    expect(table.statements).toBe(1);
    table.skipped.add('ns/0');
    await expect(rows.upsert(row(0, 'Juana'), neverAborted)).rejects.toMatchObject({ name: 'RowRefusedError' });
    expect(table.statements).toBe(3);
  });

  test('that a trigger changes are reported', async () => {
    table.isLoud = true;
    expect(outcomes(await upsertAll(2))).toEqual(['altered', 'altered']);
    expect(await rows.upsert(row(0, 'JANE'), neverAborted)).toBe('unchanged');
  });

  test('are written without the locked ones, which wait', async () => {
    for (const index of [2, 70]) table.locked.add(`ns/${index}`);
    const settled = await upsertAll(100);
    const failed = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    expect(failed).toMatchObject([{ name: 'RowBusyError' }, { name: 'RowBusyError' }]);
    expect(table.rows.size).toBe(98);
    table.locked.clear();
    expect(await rows.upsert(row(70), neverAborted)).toBe('written');
  });

  test('of a table that is locked wait after the first statements', async () => {
    stopClock();
    table.fault = refusal('55P03');
    const settled = await upsertAll(100);
    for (const one of settled) {
      expect(one.status === 'rejected' && one.reason).toMatchObject({
        name: 'ExternalSystemDownError',
        reason: 'TableBusy',
      });
    }
    expect(table.statements).toBe(4);
  });

  test('that cannot be deleted do not prevent other deletions', async () => {
    await upsertAll(20);
    table.refused.set('ns/4', '23503');
    table.locked.add('ns/5');
    const deletions = await Promise.allSettled(
      Array.from({ length: 20 }, (_, index) => rows.delete(`ns/${index}`, neverAborted)),
    );
    expect(deletions.filter(({ status }) => status === 'rejected')).toMatchObject([
      { reason: { name: 'RowRefusedError' } },
      { reason: { name: 'RowBusyError' } },
    ]);
    expect([...table.rows.keys()]).toEqual(['ns/4', 'ns/5']);
  });

  test('that a trigger does not let be deleted are refused in its words, also without the permission to write', async () => {
    table.lacks = ['INSERT'];
    table.refused.set('ns/1', '42501');
    await expect(rows.delete('ns/1', neverAborted)).rejects.toThrow('the database refuses the row: refused: 42501');
  });

  test('of a table that cannot be written to cost few statements', async () => {
    stopClock();
    table.fault = refusal('42P01');
    await upsertAll(500);
    expect(table.statements).toBe(4);
    await expect(rows.upsert(row(1), neverAborted)).rejects.toBeInstanceOf(ExternalSystemDownError);
    expect(table.statements).toBe(4);
  });

  test('are not reported as deleted if the table is missing or cannot be used', async () => {
    await upsertAll(3);
    await rows.delete('ns/1', neverAborted);
    expect([...table.rows.keys()]).toEqual(['ns/0', 'ns/2']);
    table.fault = refusal('42P01');
    await expect(rows.delete('ns/2', neverAborted)).rejects.toMatchObject({ reason: 'TableMissing' });
  });
});
