import { setTimeout as delay } from 'node:timers/promises';
import { expect } from '@jest/globals';
import { eventually } from '../../../testkit/eventually.ts';
import { forEachOf } from '../../../testkit/for-each-of.ts';
import { PostgresWorld } from './postgres-world.ts';

/** An upper bound for the time of each step, in milliseconds. */
export const timeLimitMs = (count: number): number => 120_000 + count * 90;

/** Of up to 10,000 rows, whatever comes between them. */
const maxStatements = 200;

/** A world with a table, and an operator with few workers, as by default. */
export async function startManyWorld(): Promise<PostgresWorld> {
  const world = await PostgresWorld.start();
  await world.createTable('students');
  await world.startOperator({ NUM_WORKERS: '4' });
  return world;
}

/**
 * What is counted in the database is how long its statements were planned and executed, as pg_stat_statements has it. It is
 * the time of a clock, and the API server, the operator and this test want the processors too: so the COPY that it is
 * compared with is taken again and again while the operator writes, and not at a quiet moment afterwards. Commits, and
 * the reading of parameters, are counted on neither side; `make bench` counts them too.
 */
interface Cost {
  readonly statements: number;
  readonly milliseconds: number;
}

const planAndExecution = 'total_plan_time + total_exec_time';

/** What the operator's role has cost the database since the last time. */
async function cost(world: PostgresWorld): Promise<Cost> {
  const [row] = await world.database.query<{ readonly calls: string; readonly ms: number }>(
    `SELECT coalesce(sum(calls), 0) AS calls, coalesce(sum(${planAndExecution}), 0) AS ms FROM pg_stat_statements
     WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = 'writer')`,
  );
  await world.database.query('SELECT pg_stat_statements_reset()');
  return { statements: Number(row?.calls), milliseconds: Number(row?.ms) };
}

/** Copies as many rows into a table of the same form by one COPY, every second until the work has ended. */
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

/** How long a COPY took, in the mean. */
async function copyMs(world: PostgresWorld): Promise<number> {
  const [row] = await world.database.query<{ readonly ms: number }>(
    `SELECT (${planAndExecution}) / calls AS ms FROM pg_stat_statements WHERE query LIKE 'COPY copied FROM%'`,
  );
  return Number(row?.ms);
}

/** To look at the rows costs less than to look at the resources. */
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

/** Makes so many PostgresWriters, changes them and deletes them. */
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
  // Of few rows it is the statements' own cost, and chance, that counts.
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
  await forEachOf(names, (name) => world.delete({ name, namespace }));
  await rowsWhere(world, { condition: 'true', wanted: 0, timeoutMs });
  await eventually('all PostgresWriters are gone', async () => (await world.list(namespace)).length === 0, timeoutMs);
  const deleted = await cost(world);
  process.stdout.write(
    `${count} PostgresWriters with their rows after ${seconds.toFixed(1)} s; statements: ${made.statements}, changed ${changed.statements}, deleted ${deleted.statements}; ` +
      `database: ${made.milliseconds.toFixed(0)} ms, a COPY of as many ${copied?.toFixed(0) ?? 'was not measured'}\n`,
  );
  expect(made.statements).toBeLessThanOrEqual(maxStatements);
  // These come one by one, as fast as the API server takes them, and meet less company.
  for (const { statements } of [made, changed, deleted]) expect(statements).toBeLessThan(count / 2);
  if (copied !== undefined) expect(made.milliseconds).toBeLessThanOrEqual(5 * copied);
  expect(await world.rows('students')).toEqual([]);
}
