import { setTimeout as delay } from 'node:timers/promises';
import { expect } from '@jest/globals';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { PostgresWorld } from './postgres-world.ts';

/** An upper bound for the time of each step, in milliseconds. */
export const timeLimitMs = (count: number): number => 120_000 + count * 90;

/** The bound for up to 10,000 rows, including small batches in between. */
const maxStatements = 200;

/** A world with a table, and an operator with the default number of workers. */
export async function startManyWorld(): Promise<PostgresWorld> {
  const world = await PostgresWorld.start();
  await world.createTable('students');
  await world.startOperator({ NUM_WORKERS: '4' });
  return world;
}

/**
 * Compares the planning and execution time of the operator's statements (pg_stat_statements) with that of COPY. This is wall-clock time, and
 * the API server, the operator and the test use the processors too. Therefore COPY runs repeatedly while the operator writes. Commits and
 * the parsing of parameters count on neither side; `make bench` includes them.
 */
interface Cost {
  readonly statements: number;
  readonly milliseconds: number;
}

const planAndExecution = 'total_plan_time + total_exec_time';

/** Returns the cost of the operator's statements since the last call. */
async function cost(world: PostgresWorld): Promise<Cost> {
  const [row] = await world.database.query<{ readonly calls: string; readonly ms: number }>(
    `SELECT coalesce(sum(calls), 0) AS calls, coalesce(sum(${planAndExecution}), 0) AS ms FROM pg_stat_statements
     WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = 'writer')`,
  );
  await world.database.query('SELECT pg_stat_statements_reset()');
  return { statements: Number(row?.calls), milliseconds: Number(row?.ms) };
}

/** Copies as many rows into an equal table by one COPY, every second until the work has ended. */
async function besideCopies<T>(world: PostgresWorld, count: number, work: () => Promise<T>): Promise<T> {
  await world.createTable('copied');
  const [setting] = await world.database.query<{ readonly folder: string }>(
    "SELECT current_setting('data_directory') AS folder",
  );
  const file = `'${setting?.folder}/rows'`;
  const rows = `SELECT 'test-0123456789/many-' || i, 'many-' || i, 21, 'Peru' FROM generate_series(1, ${count}) AS i`;
  await world.database.query(`COPY (${rows}) TO ${file}`);
  const ending = new AbortController();
  const copies = (async (): Promise<void> => {
    while (!ending.signal.aborted) {
      await world.database.query('TRUNCATE copied');
      await world.database.query(`COPY copied FROM ${file}`);
      await delay(1000, undefined, { signal: ending.signal }).catch(() => {});
    }
  })();
  try {
    return await work();
  } finally {
    ending.abort();
    await copies;
  }
}

/** Returns the mean duration of a COPY. */
async function copyMs(world: PostgresWorld): Promise<number> {
  const [row] = await world.database.query<{ readonly ms: number }>(
    `SELECT (${planAndExecution}) / calls AS ms FROM pg_stat_statements WHERE query LIKE 'COPY copied FROM%'`,
  );
  return Number(row?.ms);
}

/** Polls the rows, which is cheaper than polling the resources. */
async function rowsWhere(
  world: PostgresWorld,
  { condition, wanted, timeoutMs }: { readonly condition: string; readonly wanted: number; readonly timeoutMs: number },
): Promise<void> {
  const look = async (): Promise<boolean> => {
    await delay(250);
    const [row] = await world.database.query<{ readonly found: string }>(
      `SELECT count(*) AS found FROM students WHERE ${condition}`,
    );
    return Number(row?.found) === wanted;
  };
  await eventually(`there are ${wanted} rows with ${condition}`, look, timeoutMs);
}

/** Creates, changes and deletes PostgresWriters. */
export async function expectFewStatements(world: PostgresWorld, count: number): Promise<void> {
  const timeoutMs = timeLimitMs(count);
  const namespace = await world.cluster.namespace();
  const spec = { table: 'students', name: 'Jane', country: 'Peru' };
  await cost(world);
  const startedAtMs = performance.now();
  const make = async (): Promise<void> => {
    await world.applyMany(namespace, count, { ...spec, age: 21 });
    await rowsWhere(world, { condition: 'age = 21', wanted: count, timeoutMs });
  };
  // With few rows, fixed costs and chance dominate.
  const isCompared = count >= 10_000;
  await (isCompared ? besideCopies(world, count, make) : make());
  const copied = isCompared ? await copyMs(world) : undefined;
  await world.settled(namespace, ['students'], timeoutMs);
  const seconds = (performance.now() - startedAtMs) / 1000;
  const made = await cost(world);
  await world.applyMany(namespace, count, { ...spec, age: 22 });
  await rowsWhere(world, { condition: 'age = 22', wanted: count, timeoutMs });
  await world.settled(namespace, ['students'], timeoutMs);
  const changed = await cost(world);
  const names = Array.from({ length: count }, (_, index) => `many-${index}`);
  await forEachConcurrently(names, (name) => world.delete({ name, namespace }));
  await rowsWhere(world, { condition: 'true', wanted: 0, timeoutMs });
  await eventually('all PostgresWriters are gone', async () => (await world.list(namespace)).length === 0, timeoutMs);
  const deleted = await cost(world);
  process.stdout.write(
    `${count} PostgresWriters with their rows after ${seconds.toFixed(1)} s; statements: ${made.statements}, changed ${changed.statements}, deleted ${deleted.statements}; ` +
      `database: ${made.milliseconds.toFixed(0)} ms, a COPY of as many ${copied?.toFixed(0) ?? 'was not measured'}\n`,
  );
  expect(made.statements).toBeLessThanOrEqual(maxStatements);
  // Deletions arrive one by one, as fast as the API server handles them, so fewer rows share a statement.
  for (const { statements } of [made, changed, deleted]) expect(statements).toBeLessThan(count / 2);
  if (copied !== undefined) expect(made.milliseconds).toBeLessThanOrEqual(5 * copied);
  expect(await world.rows('students')).toEqual([]);
}
