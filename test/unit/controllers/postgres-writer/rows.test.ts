import { beforeEach, describe, expect, test } from '@jest/globals';
import { OutsideDownError } from '../../../../src/controllers/outside/index.ts';
import { Rendezvous } from '../../../../src/controllers/postgres-writer/rendezvous.ts';
import type { Row } from '../../../../src/controllers/postgres-writer/row.ts';
import { Rows } from '../../../../src/controllers/postgres-writer/rows.ts';
import type { Statement } from '../../../../src/controllers/postgres-writer/statements.ts';
import { RecordingLog } from '../../environment/recording-log.ts';

const refusal = (code: string): Error => Object.assign(new Error(`refused: ${code}`), { code, severity: 'ERROR' });

/** A table in memory that counts its statements, and refuses, or has locked, some rows. */
class Table {
  readonly rows = new Map<string, string>();
  readonly refused = new Set<string>();
  readonly locked = new Set<string>();
  statements = 0;
  fault: Error | undefined;

  readonly query = async <R extends object>({ text, values }: Statement): Promise<readonly R[]> => {
    this.statements += 1;
    await Promise.resolve();
    if (this.fault !== undefined) throw this.fault;
    const [ids, names = []] = values as [string[], string[]?];
    if (text.includes('DELETE')) {
      for (const id of ids) this.rows.delete(id);
      return [];
    }
    if (ids.some((id) => this.locked.has(id))) throw refusal('55P03');
    if (ids.some((id) => this.refused.has(id))) throw refusal('23514');
    const changed = ids.filter((id, index) => this.rows.get(id) !== names[index]);
    for (const [index, id] of ids.entries()) this.rows.set(id, names[index] ?? '');
    return changed.map((id) => ({ id })) as readonly object[] as readonly R[];
  };
}

let table: Table;
let rows: Rows;
let rendezvous: Rendezvous;

beforeEach(() => {
  table = new Table();
  rendezvous = new Rendezvous();
  rows = new Rows({ schema: 'public', name: 'students' }, { database: table, rendezvous, log: new RecordingLog() });
});

const row = (index: number, name = 'Jane'): Row => ({ id: `ns/${index}`, name, age: 1, country: 'Peru' });

/** All of them at about the same time. */
const upsertAll = (count: number, name?: string) =>
  Promise.allSettled(
    Array.from({ length: count }, (_, index) =>
      rendezvous.during(async () => {
        await Promise.resolve();
        return rendezvous.waiting(() => rows.upsert(row(index, name)));
      }),
    ),
  );

const outcomes = (settled: readonly PromiseSettledResult<unknown>[]): readonly unknown[] =>
  settled.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as Error).message));

describe('the rows of a table', () => {
  test('go by the hundred', async () => {
    await upsertAll(1000);
    expect(table.rows.size).toBe(1000);
    expect(table.statements).toBe(10);
  });

  test('tell which of them had to be written', async () => {
    await upsertAll(2);
    expect(outcomes(await upsertAll(3))).toEqual(['unchanged', 'unchanged', 'written']);
  });

  test('that are refused are found by halving, and the others are written', async () => {
    for (const index of [3, 64, 65]) table.refused.add(`ns/${index}`);
    const found = outcomes(await upsertAll(100));
    expect(found.flatMap((outcome, index) => (outcome === 'written' ? [] : [index]))).toEqual([3, 64, 65]);
    expect(found[3]).toBe('refused: 23514');
    expect(table.rows.size).toBe(97);
    expect(table.statements).toBeLessThan(40);
  });

  test('one of which is locked wait for nothing, but for that one', async () => {
    table.locked.add('ns/70');
    const found = outcomes(await upsertAll(100));
    expect(found.filter((outcome) => outcome !== 'written')).toEqual(['refused: 55P03']);
    expect(table.statements).toBeLessThan(20);
    table.locked.clear();
    expect(await rows.upsert(row(70))).toBe('written');
  });

  test('of a table that is locked are tried three times, and then wait', async () => {
    for (let index = 0; index < 100; index++) table.locked.add(`ns/${index}`);
    const settled = await upsertAll(100);
    for (const one of settled) {
      expect(one.status === 'rejected' && one.reason).toMatchObject({ name: 'OutsideDownError', reason: 'TableBusy' });
    }
    expect(table.statements).toBe(3);
  });

  test('one of which is refused behind a locked one are told apart', async () => {
    table.locked.add('ns/1');
    table.refused.add('ns/90');
    const found = outcomes(await upsertAll(100));
    expect(found[1]).toBe('refused: 55P03');
    expect(table.rows.size).toBeGreaterThan(0);
  });

  test('of a table that cannot be written to cost one statement', async () => {
    table.fault = refusal('42P01');
    await upsertAll(500);
    expect(table.statements).toBe(1);
    await expect(rows.upsert(row(1))).rejects.toBeInstanceOf(OutsideDownError);
    expect(table.statements).toBe(1);
  });

  test('are deleted, also from a table that is not there', async () => {
    await upsertAll(3);
    await rows.delete('ns/1');
    expect([...table.rows.keys()]).toEqual(['ns/0', 'ns/2']);
    table.fault = refusal('42P01');
    await rows.delete('ns/2');
    await expect(rows.upsert(row(5))).rejects.toMatchObject({ reason: 'TableMissing' });
    // The circuit is cut by now.
    await rows.delete('ns/0');
  });

  test('are not taken for deleted where the table cannot be used', async () => {
    table.fault = refusal('42501');
    await expect(rows.delete('ns/1')).rejects.toMatchObject({ reason: 'PermissionDenied' });
  });
});
