import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { TcpProxy } from '../../testkit/tcp-proxy.ts';
import {
  endFaults,
  jane,
  killAfter,
  killWhileMoving,
  plain,
  proxy,
  refusals,
  setUpFaults,
  tearDownFaults,
  world,
} from './environment/postgres-faults-world.ts';
import { expectOutageSurvived } from './environment/postgres-outage.ts';
import { readyOf } from './environment/postgres-world.ts';

beforeAll(() => setUpFaults());
afterEach(() => endFaults());
afterAll(() => tearDownFaults());

describe('a connection that is not possible', () => {
  test('because the file with the user is missing is reported', async () => {
    const folder = join(world.folder, 'empty');
    await mkdir(folder, { recursive: true });
    await world.startOperator({ ...plain(), PSQL_CREDENTIALS_DIR: folder });
    const key = world.newKey('nameless');
    await world.apply(key, jane);
    expect(readyOf(await world.withReason(key, 'CredentialsMissing'))?.message).toContain(
      `the file PSQL_USER in ${folder} does not exist`,
    );
  });

  test('because the database is missing is reported', async () => {
    await world.startOperator({ ...plain(), PSQL_DBNAME: 'nowhere' });
    const key = world.newKey('lost');
    await world.apply(key, jane);
    expect(readyOf(await world.withReason(key, 'DatabaseMissing'))?.message).toContain(
      'database "nowhere" does not exist',
    );
  });
});

describe('TLS', () => {
  test('with any certificate satisfies sslmode=require', async () => {
    await world.startOperator({ PSQL_SSLMODE: 'require', PSQL_SSLROOTCERT: '' });
    const key = world.newKey('required');
    await world.apply(key, jane);
    await world.withReason(key, 'RowWritten');
    const sql = `SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'writer'`;
    expect(await world.database.query(sql)).toContainEqual({ ssl: true });
  });

  test('with a certificate for another host is rejected by sslmode=verify-full', async () => {
    // The certificate is for localhost and 127.0.0.1.
    expect(await refusals({ PSQL_HOST: '127.0.0.2', PSQL_PORT: String(await onAnotherAddress()) })).toContain(
      '127.0.0.2',
    );
  });

  test('that only the server requires is reported', async () => {
    await world.database.allow('hostssl all all 127.0.0.1/32 scram-sha-256\n');
    try {
      expect(await refusals(plain())).toContain('no encryption');
    } finally {
      await world.database.allow('host all all 127.0.0.1/32 scram-sha-256\n');
    }
  });

  test('that the operator requires and the server lacks is reported', async () => {
    await world.database.setTls(false);
    try {
      for (const mode of ['require', 'verify-full']) {
        expect(await refusals({ PSQL_SSLMODE: mode })).toContain('does not support SSL');
        await world.stopOperator();
      }
    } finally {
      await world.database.setTls(true);
    }
  });
});

/** A way to the database over another of the loopback's addresses. */
async function onAnotherAddress(): Promise<number> {
  elsewhere ??= await TcpProxy.start(world.database.port, '127.0.0.2');
  return elsewhere.port;
}
let elsewhere: TcpProxy | undefined;
afterAll(() => elsewhere?.[Symbol.asyncDispose]());

describe('an outage of the database during many writes', () => {
  test.each(['stop', 'freeze'] as const)(
    'by a %s loses and duplicates no row',
    (how) => expectOutageSurvived(world, how, { writers: 60, seconds: 0 }),
    180_000,
  );

  test('by connections that break repeatedly loses and duplicates no row', async () => {
    await world.startOperator(plain());
    const namespace = await world.cluster.namespace();
    const creating = world.applyMany(namespace, 200, jane);
    let cuts = 0;
    proxy.onSent((data) => {
      // Before the server's answer is on its way, if not before the statement is.
      if (!data.includes('INSERT INTO')) return;
      cuts += 1;
      if (cuts % 2 === 0 && cuts < 20) setImmediate(() => proxy.cut());
    });
    await creating;
    await world.settled(namespace, ['students'], 90_000);
    expect(cuts).toBeGreaterThan(3);
  });

  test('without a message ends the statements in flight, which are sent again', async () => {
    await world.startOperator({ ...plain(), PSQL_STATEMENT_TIMEOUT_SECONDS: '1', PSQL_CONNECT_TIMEOUT_SECONDS: '1' });
    const [first, second] = [world.newKey('before'), world.newKey('after')];
    await world.apply(first, jane);
    await world.withReason(first, 'RowWritten');
    proxy.mute();
    await world.apply(second, jane);
    await world.withReason(second, 'RowWritten');
    expect(await world.rows('students', second)).toHaveLength(1);
  });
});

describe('a lock of another client', () => {
  test('on a row delays the other rows of its table only briefly', async () => {
    await world.startOperator();
    const namespace = await world.cluster.namespace();
    const spec = { ...jane, table: 'b' };
    await world.applyMany(namespace, 20, spec);
    await world.settled(namespace, ['b']);
    const client = await world.database.connect();
    try {
      await client.query(`BEGIN; SELECT 1 FROM b WHERE id = '${namespace}/many-7' FOR UPDATE`);
      await world.applyMany(namespace, 20, { ...spec, age: 50 });
      await eventually(
        'nineteen of twenty are changed',
        async () => (await world.rows('b', namespace)).filter(({ age }) => age === 50).length === 19,
      );
      expect(readyOf(await world.withReason({ name: 'many-7', namespace }, 'TableBusy'))?.message).toContain('lock');
    } finally {
      await client.query('COMMIT');
      await client.end();
    }
    await world.settled(namespace, ['b']);
  });
});

describe('if the operator is killed', () => {
  // A move is noted in the status, written to the new table, deleted from the old one, and reported.
  test.each([
    ['it notes the new table', { where: 'api', number: 1 }],
    ['it deletes the row from the old table', { where: 'sql', number: 2 }],
    ['it reports the move', { where: 'api', number: 2 }],
  ] as const)('after %s, the row is in the end only in the table of the last spec', (_, point) =>
    killWhileMoving(point),
  );

  const leavesNoRow = async (key: ReturnType<typeof world.newKey>): Promise<void> => {
    await world.gone(key);
    expect(await world.rows('students', key)).toEqual([]);
  };

  test.each([
    ['it deletes the row', { where: 'sql', number: 1 }],
    ['it removes the finalizer', { where: 'api', number: 1 }],
  ] as const)('after %s, a deleted PostgresWriter leaves no row', async (_, point) => {
    const key = world.newKey('deleted');
    await killAfter(point, key.namespace, {
      prepare: async () => {
        await world.apply(key, jane);
        await world.withReason(key, 'RowWritten');
      },
      cause: () => world.delete(key),
      verify: () => leavesNoRow(key),
    });
  });

  test.each([
    ['it adds the finalizer', { where: 'api', number: 1 }],
    ['it notes the table', { where: 'api', number: 2 }],
    ['it writes the row', { where: 'sql', number: 1 }],
    ['it reports the row', { where: 'api', number: 3 }],
  ] as const)('after %s, a new PostgresWriter that is then deleted leaves no row', async (_, point) => {
    const key = world.newKey('brief');
    await killAfter(point, key.namespace, {
      cause: () => world.apply(key, jane),
      meanwhile: () => world.delete(key),
      verify: () => leavesNoRow(key),
    });
  });
});

test.each(['killed', 'cut off'])(
  'a row whose statement is in flight when the operator is %s, and whose PostgresWriter is then deleted, is not written',
  async (how) => {
    await world.createTable(how);
    await world.database.query(`CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(4); RETURN NEW; END $$;
      CREATE TRIGGER slow BEFORE INSERT ON "${how}" FOR EACH ROW EXECUTE FUNCTION slow()`);
    const underWay = (condition: string) =>
      world.database.query(`SELECT FROM pg_stat_activity WHERE usename = 'writer' AND ${condition}`);
    await world.startOperator(plain());
    const key = world.newKey('late');
    await world.apply(key, { ...jane, table: how });
    await eventually('it is under way', async () => (await underWay("wait_event = 'PgSleep'")).length === 1);
    if (how === 'killed') await world.stopOperator('SIGKILL');
    else proxy.cut();
    await world.delete(key);
    if (how === 'killed') await world.startOperator(plain());
    await world.gone(key);
    await eventually('nothing is under way', async () => (await underWay("state <> 'idle'")).length === 0);
    expect(await world.rows(`"${how}"`, key)).toEqual([]);
  },
);

test('if a table is missing for a moment while a PostgresWriter is deleted, the row is deleted when the table is back', async () => {
  await world.createTable('renamed');
  await world.startOperator();
  const key = world.newKey('patient');
  await world.apply(key, { ...jane, table: 'renamed' });
  await world.withReason(key, 'RowWritten');
  await world.database.query('ALTER TABLE renamed RENAME TO elsewhere');
  await world.delete(key);
  expect(readyOf(await world.withReason(key, 'TableMissing'))?.message).toContain(
    'waiting to delete the row from public.renamed',
  );
  await world.database.query('ALTER TABLE elsewhere RENAME TO renamed');
  await world.gone(key);
  expect(await world.rows('renamed', key)).toEqual([]);
});
