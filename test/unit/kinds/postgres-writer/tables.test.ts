import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { InFlightCount } from '../../../../src/external/batch.ts';
import { OutsideDownError } from '../../../../src/external/circuit.ts';
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
  const tables = new Tables({ database, inFlight: new InFlightCount() });
  const ask = (name: string): void => {
    tables.find({ schema: 'public', name }).catch((error: unknown) => {
      if (!(error instanceof OutsideDownError)) throw error;
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
  const table = { ...students, columns: ['id', 'name', 'age', 'country'], lacks: [], ...found };
  const query = async <R extends object>(): Promise<readonly R[]> => [table] as readonly object[] as readonly R[];
  return new Tables({ database: { query }, inFlight: new InFlightCount(), isAllowed });
}

test.each([['INSERT'], ['UPDATE'], ['INSERT', 'UPDATE']])(
  'a table without the permission to write (%s %s) is found for a deletion',
  async (...lacks) => {
    const tables = tablesWith({ lacks });
    await expect(tables.find(students)).rejects.toThrow(`the role lacks ${lacks.join(', ')} on the table`);
    expect(await tables.find(students, 'delete')).toEqual(students);
  },
);

test.each([
  ['SELECT', 'SELECT on the table'],
  ['DELETE', 'DELETE on the table'],
  ['USAGE', 'USAGE on its schema'],
])('a table is not found for a deletion without %s', async (privilege, words) => {
  const tables = tablesWith({ lacks: ['INSERT', privilege] });
  await expect(tables.find(students, 'delete')).rejects.toThrow(`the role lacks ${words}`);
});

test.each<Partial<FoundTable>>([{ columns: ['id'] }, { lacks: ['INSERT'] }])(
  'nothing is said about a table that is not allowed, of which %j',
  async (found) => {
    const isAllowed = ({ name }: Table): boolean => name === 'planned';
    expect(await tablesWith(found, isAllowed).find(students)).toEqual(students);
  },
);
