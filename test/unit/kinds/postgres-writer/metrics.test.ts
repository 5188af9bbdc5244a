import { expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { connectionMetrics, statementMetrics } from '../../../../src/kinds/postgres-writer/metrics.ts';

const registryLines = async (registry: Registry): Promise<string[]> =>
  (await registry.metrics())
    .split('\n')
    .filter((line) => /^[a-z_]+(\{[^}]*\})? /.test(line) && !line.includes('_bucket'));

test('counts the statements by their results, from zero, and measures them', async () => {
  const registry = new Registry();
  const failures = [undefined, new Error('no')];
  const database = statementMetrics(registry, {
    query: async () => {
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
      return [];
    },
  });
  expect(await registryLines(registry)).toEqual([
    'echoperator_postgres_statements_total{result="success"} 0',
    'echoperator_postgres_statements_total{result="error"} 0',
    'echoperator_postgres_statement_seconds_sum 0',
    'echoperator_postgres_statement_seconds_count 0',
  ]);
  await database.query({ text: 'SELECT 1', values: [] });
  await expect(database.query({ text: 'SELECT 1', values: [] })).rejects.toThrow('no');
  const lines = await registryLines(registry);
  expect(lines.slice(0, 2)).toEqual([
    'echoperator_postgres_statements_total{result="success"} 1',
    'echoperator_postgres_statements_total{result="error"} 1',
  ]);
  expect(lines.at(-1)).toBe('echoperator_postgres_statement_seconds_count 2');
});

test('reads the connections at each scrape', async () => {
  const registry = new Registry();
  let counts = { idle: 0, inUse: 0, waitingStatements: 0 };
  connectionMetrics(registry, {
    database: { connections: () => counts },
    tables: { waitingStatements: 2 },
    poolSize: 4,
  });
  counts = { idle: 1, inUse: 3, waitingStatements: 7 };
  expect(await registryLines(registry)).toEqual([
    'echoperator_postgres_connections{state="idle"} 1',
    'echoperator_postgres_connections{state="in_use"} 3',
    'echoperator_postgres_waiting_statements 9',
    'echoperator_postgres_max_connections 4',
  ]);
});
