import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { InFlightCount } from '../../../../src/external/batch.ts';
import { OutsideDownError } from '../../../../src/external/circuit.ts';
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
