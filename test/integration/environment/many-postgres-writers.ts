import { setTimeout as delay } from 'node:timers/promises';
import { expect } from '@jest/globals';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { PostgresWorld } from './postgres-world.ts';

/** An upper bound for the time of each step, in milliseconds. */
export const timeLimitMs = (count: number): number => 120_000 + count * 90;

/** A world with a table, and an operator with the default number of workers. */
export async function startManyWorld(): Promise<PostgresWorld> {
  const world = await PostgresWorld.start();
  await world.createTable('students');
  await world.startOperator({ NUM_WORKERS: '4' });
  return world;
}

/** Returns how many statements the operator has sent since the last call. */
async function statementsOf(world: PostgresWorld): Promise<number> {
  const [row] = await world.database.query<{ readonly calls: string }>(
    `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_statements
     WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = 'writer')`,
  );
  await world.database.query('SELECT pg_stat_statements_reset()');
  return Number(row?.calls);
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

/** Creates, changes and deletes PostgresWriters. Each time the operator sends about one statement a row. */
export async function expectAStatementEach(world: PostgresWorld, count: number): Promise<void> {
  const timeoutMs = timeLimitMs(count);
  const namespace = await world.cluster.namespace();
  const spec = { table: 'students', name: 'Jane', country: 'Peru' };
  await statementsOf(world);
  const startedAtMs = performance.now();
  const statements: number[] = [];
  for (const age of [21, 22]) {
    await world.applyMany(namespace, count, { ...spec, age });
    await rowsWhere(world, { condition: `age = ${age}`, wanted: count, timeoutMs });
    await world.settled(namespace, ['students'], timeoutMs);
    statements.push(await statementsOf(world));
  }
  const seconds = (performance.now() - startedAtMs) / 1000;
  const names = Array.from({ length: count }, (_, index) => `many-${index}`);
  await forEachConcurrently(names, (name) => world.delete({ name, namespace }));
  await rowsWhere(world, { condition: 'true', wanted: 0, timeoutMs });
  await eventually('all PostgresWriters are gone', async () => (await world.list(namespace)).length === 0, timeoutMs);
  statements.push(await statementsOf(world));
  process.stdout.write(
    `${count} PostgresWriters created and changed in ${seconds.toFixed(1)} s; statements: ${statements.join(', ')}\n`,
  );
  // The others look up the table. A resync reads each row again.
  for (const sent of statements) expect(sent).toBeLessThan(2 * count);
  expect(await world.rows('students')).toEqual([]);
}
