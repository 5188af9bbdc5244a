import { setTimeout as delay } from 'node:timers/promises';
import { expect } from '@jest/globals';
import type { PostgresWriter } from '../../../src/kinds/postgres-writer/kind.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { connectionsOf } from '../../../testkit/postgres-server.ts';
import { type PostgresWorld, readyOf } from './postgres-world.ts';

/** The types of outages of a database. */
export const outages = ['stop', 'kill', 'freeze'] as const;

/** An operator that only waited for its retries would need up to this long after a database is back. */
const maxBackoffSeconds = 60;

/**
 * Causes an outage of the database during many writes. Verifies that it is reported and that no row is lost.
 *
 * @param size.seconds the least duration. The outage also lasts until the operator has reported it.
 */
export async function expectOutageSurvived(
  world: PostgresWorld,
  how: (typeof outages)[number],
  size: { readonly writers: number; readonly seconds: number },
): Promise<void> {
  await world.startOperator();
  const namespace = await world.cluster.namespace();
  const spec = { table: 'students', name: 'Jane', age: 21, country: 'Peru' };
  const creating = world.applyMany(namespace, size.writers, spec);
  await eventually('some rows are there', async () => (await world.rows('students', namespace)).length > 20);
  await world.database[how]();
  const downAtMs = performance.now();
  const hasSeenOutage = (writer: PostgresWriter): boolean =>
    readyOf(writer)?.reason === 'DatabaseDown' && writer.status?.tables !== undefined;
  // All rows may exist already without a report. One more change makes the operator send a statement.
  const first = await eventually('a row or the outage is reported', async () =>
    (await world.list(namespace)).find((writer) => readyOf(writer)?.reason === 'RowWritten' || hasSeenOutage(writer)),
  );
  if (!hasSeenOutage(first)) await world.apply({ name: first.metadata.name, namespace }, { ...first.spec, age: 22 });
  const down = await eventually('the outage is reported', async () =>
    (await world.list(namespace)).find(hasSeenOutage),
  );
  expect(readyOf(down)?.message).toMatch(/^the database 127\.0\.0\.1:\d+\/postgres: /);
  await creating;
  const deleted = { name: down.metadata.name, namespace };
  await world.delete(deleted);
  const waiting = await eventually('the deletion says what it waits for', async () => {
    const found = await world.get(deleted);
    return readyOf(found)?.message.startsWith('waiting to delete the row from public.students: ') && found;
  });
  expect(readyOf(waiting)).toMatchObject({ status: 'False', reason: 'DatabaseDown' });
  const operator = await fetch(`http://127.0.0.1:${world.operator.healthPort}/readyz`);
  expect(operator.status).toBe(200);
  expect(await world.operator.metrics()).toMatch(/^echoperator_external_system_up\{system="postgres"\} 0$/m);
  await delay(Math.max(0, downAtMs + size.seconds * 1000 - performance.now()));
  if (how === 'freeze') world.database.thaw();
  else await world.database.restart();
  const backAtMs = performance.now();
  await world.gone(deleted);
  await world.settled(namespace, ['students']);
  const seconds = (performance.now() - backAtMs) / 1000;
  process.stdout.write(
    `${size.writers} rows, away for ${size.seconds} s by a ${how}: caught up after ${seconds.toFixed(1)} s\n`,
  );
  // After a short outage a retry could be as early.
  if (size.seconds >= 60) expect(seconds).toBeLessThan(maxBackoffSeconds / 2);
  expect(await world.operator.metrics()).toMatch(/^echoperator_external_system_up\{system="postgres"\} 1$/m);
  expect(await connectionsOf(world.database, 'writer')).toBeLessThanOrEqual(4);
}
