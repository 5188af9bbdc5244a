import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { ExternalSystemDownError } from '../../../../src/external/circuit.ts';
import type { FoundTable, Table } from '../../../../src/kinds/postgres-writer/statements.ts';
import { Tables } from '../../../../src/kinds/postgres-writer/tables.ts';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

test('thousands of names that lead nowhere are looked up ever more seldom', async () => {
  const count = 2000;
  let queries = 0;
  const database = {
    query: async <R extends object>(): Promise<readonly R[]> => {
      queries += 1;
      return [];
    },
  };
  const tables = new Tables({ database, maxStatements: 2 });
  const ask = (name: string): void => {
    tables.find({ schema: 'public', name }).catch((error: unknown) => {
      if (!(error instanceof ExternalSystemDownError)) throw error;
      setTimeout(() => ask(name), error.retryAfterMs);
    });
  };
  for (let index = 0; index < count; index++) ask(`nowhere-${index}`);
  await jest.advanceTimersByTimeAsync(120_000);
  const before = queries;
  await jest.advanceTimersByTimeAsync(30_000);
  // Of each name one in fifteen seconds at the most.
  expect(queries - before).toBeGreaterThan(count / 2);
  expect(queries - before).toBeLessThanOrEqual(count * 2);
});

const students = { schema: 'public', name: 'students' };

/** Tables of a database whose catalogue has `public.students`. */
function tablesWith(found: Partial<FoundTable>, isAllowed?: (table: Table) => boolean): Tables {
  const fit = { columns: ['id', 'name', 'age', 'country'], lacks: [], lacksToDelete: [] };
  const table = { ...students, ...fit, ...found };
  const query = async <R extends object>(): Promise<readonly R[]> => [table] as readonly object[] as readonly R[];
  return new Tables({ database: { query }, maxStatements: 2, isAllowed });
}

test('a table without a permission that only a write needs is found for a deletion', async () => {
  const tables = tablesWith({ lacks: ['SELECT', 'INSERT'] });
  await expect(tables.find(students)).rejects.toThrow('the role lacks SELECT, INSERT on the table');
  expect(await tables.find(students, 'delete')).toEqual(students);
});

test('a table without a column that only a write needs is found for a deletion', async () => {
  const tables = tablesWith({ columns: ['id', 'name', 'age'] });
  await expect(tables.find(students)).rejects.toThrow('the table has no column country');
  expect(await tables.find(students, 'delete')).toEqual(students);
});

test('a table without the column id is not found for a deletion', async () => {
  const tables = tablesWith({ columns: ['name'] });
  await expect(tables.find(students, 'delete')).rejects.toThrow('the table has no column id');
});

test.each([
  ['SELECT', 'SELECT on the table'],
  ['DELETE', 'DELETE on the table'],
  ['USAGE', 'USAGE on its schema'],
])('a table is not found for a deletion without %s', async (privilege, words) => {
  const tables = tablesWith({ lacks: ['INSERT', privilege], lacksToDelete: [privilege] });
  await expect(tables.find(students, 'delete')).rejects.toThrow(`the role lacks ${words}`);
});

const isPlanned = ({ name }: Table): boolean => name === 'planned';

test.each<Partial<FoundTable>>([{}, { columns: ['id'] }, { lacks: ['INSERT'] }, { schema: 'hidden' }])(
  'nothing is said about a table that is not allowed, of which %j',
  async (found) => {
    const refused = tablesWith(found, isPlanned).find({ schema: undefined, name: 'students' });
    await expect(refused).rejects.toMatchObject({
      reason: 'TableNotAllowed',
      message:
        'the table students: this name leads to a table that PSQL_TABLES does not permit: write a permitted table with its schema, in its letter case',
    });
  },
);

test('a table that is not allowed is looked up again as soon as one that is unfit', async () => {
  const refusal = (tables: Tables) => tables.find(students).catch((error: unknown) => error);
  const unlisted = await refusal(tablesWith({}, isPlanned));
  if (!(unlisted instanceof ExternalSystemDownError)) throw unlisted;
  expect(unlisted.retryAfterMs).toBeLessThanOrEqual(2000);
});
