import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Client } from 'pg';
import { Database } from '../../src/kinds/postgres-writer/database.ts';
import type { Row } from '../../src/kinds/postgres-writer/statements.ts';
import type { Rows } from '../../src/kinds/postgres-writer/tables.ts';
import { Tables } from '../../src/kinds/postgres-writer/tables.ts';
import { eventually } from '../../testkit/eventually.ts';
import { PostgresServer } from '../../testkit/postgres-server.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TcpProxy } from '../../testkit/tcp-proxy.ts';

let server: PostgresServer;
let proxy: TcpProxy;
let opened: Database[];

beforeAll(async () => {
  server = await PostgresServer.start();
  await server.query(`CREATE ROLE writer LOGIN PASSWORD 'w';
    ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO writer`);
  proxy = await TcpProxy.start(server.port);
  opened = [];
});

afterEach(async () => {
  proxy.onSent(() => {});
  for (const database of opened.splice(0)) await database.close();
});

afterAll(async () => {
  await proxy?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** Creates the tables like an operator that has just started. */
function tables(statementTimeoutSeconds = 4): {
  readonly database: Database;
  readonly tables: Tables;
  rowsOf(name: string): Rows;
} {
  const log = new RecordingLog();
  const database = new Database({
    settings: {
      host: '127.0.0.1',
      port: proxy.port,
      dbname: 'postgres',
      user: 'writer',
      password: 'w',
      sslmode: 'disable',
      poolSize: 4,
      connectTimeoutSeconds: 5,
      statementTimeoutSeconds,
    },
    log,
  });
  opened.push(database);
  const found = new Tables({ database, maxStatements: 2 });
  return { database, tables: found, rowsOf: (name) => found.rowsOf({ schema: 'public', name }) };
}

const neverAborted = new AbortController().signal;
let count = 0;
/** Makes a table of its own. */
async function createTable(more = ''): Promise<string> {
  const name = `t${++count}`;
  await server.query(`CREATE TABLE ${name} (id text PRIMARY KEY, name text, age integer, country text)`);
  await server.query(more.replaceAll('$table', name));
  return name;
}

const row = (id: string, more: Partial<Row> = {}): Row => ({ id, name: 'Jane', age: 21, country: 'Peru', ...more });
const idsIn = async (name: string): Promise<readonly string[]> =>
  (await server.query<{ readonly id: string }>(`SELECT id FROM ${name} ORDER BY id`)).map(({ id }) => id);

/** Waits for all. @returns each value, or the name of the error */
const outcomesOf = async (works: readonly Promise<unknown>[]): Promise<readonly unknown[]> =>
  (await Promise.allSettled(works)).map((one) =>
    one.status === 'fulfilled' ? (one.value ?? 'deleted') : String((one.reason as Error).name),
  );

/** Why it fails; undefined if it does not. */
const reasonOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => undefined,
    ({ reason }: { readonly reason?: string }) => String(reason),
  );

/** Goes on until it is done, as the queue does. */
const persist = (work: () => Promise<unknown>): Promise<boolean> =>
  eventually('it is done', () =>
    work().then(
      () => true,
      () => false,
    ),
  );

/** Holds locks until it is ended. */
async function locking(sql: string): Promise<Client> {
  const client = await server.connect();
  await client.query(`BEGIN; ${sql}`);
  return client;
}

const backends = (condition: string) =>
  server.query<{ readonly pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE usename = 'writer' AND (${condition})`,
  );

describe('a statement whose connection broke', () => {
  const slow = `CREATE FUNCTION slow_$table() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF NEW.name = 'Jane' THEN PERFORM pg_sleep(2.5); END IF; RETURN NEW; END $$;
    CREATE TRIGGER slow BEFORE INSERT ON $table FOR EACH ROW EXECUTE FUNCTION slow_$table()`;

  /** An INSERT that goes on on the server when its connection is no more. */
  async function loseInsert(rows: Rows): Promise<void> {
    const lost = rows.upsert(row('ns/x'), neverAborted);
    await eventually('it is under way', async () => (await backends("wait_event = 'PgSleep'")).length === 1);
    proxy.cut();
    await expect(lost).rejects.toMatchObject({ reason: 'DatabaseDown' });
  }

  const nothingUnderWay = (): Promise<unknown> =>
    eventually('nothing is under way', async () => (await backends("state <> 'idle'")).length === 0);

  test.each(['the same operator', 'another one'])('has ended before %s deletes the row', async (who) => {
    const name = await createTable(slow);
    const first = tables().rowsOf(name);
    await loseInsert(first);
    const rows = who === 'the same operator' ? first : tables().rowsOf(name);
    await persist(() => rows.delete('ns/x', neverAborted));
    await nothingUnderWay();
    expect(await idsIn(name)).toEqual([]);
  });

  test('has ended before a newer one is sent for its row', async () => {
    const name = await createTable(slow);
    const rows = tables().rowsOf(name);
    await loseInsert(rows);
    await persist(() => rows.upsert(row('ns/x', { name: 'Juana' }), neverAborted));
    await nothingUnderWay();
    expect(await server.query(`SELECT name FROM ${name}`)).toEqual([{ name: 'Juana' }]);
  });

  test('is awaited even if a frozen server process has not started it yet', async () => {
    const name = await createTable();
    const { rowsOf } = tables();
    await rowsOf(name).upsert(row('ns/first'), neverAborted);
    const [idle] = await backends("state = 'idle'");
    if (idle === undefined) throw new Error('there is no connection');
    process.kill(idle.pid, 'SIGSTOP');
    try {
      let isSent = false;
      proxy.onSent((data) => {
        isSent ||= data.includes('INSERT INTO');
      });
      const lost = rowsOf(name).upsert(row('ns/x'), neverAborted);
      lost.catch(() => {});
      await eventually('the statement is sent', async () => isSent);
      proxy.onSent(() => {});
      proxy.cut();
      await expect(lost).rejects.toMatchObject({ reason: 'DatabaseDown' });
      const outcomes: string[] = [];
      let waits = 0;
      await eventually('two deletions have waited for it, or one has not', async () => {
        const startedAtMs = performance.now();
        const outcome = await reasonOf(rowsOf(name).delete('ns/x', neverAborted));
        outcomes.push(outcome ?? 'deleted');
        // A deletion that the circuit refuses at once has not asked the server.
        if (performance.now() - startedAtMs > 1000) waits += 1;
        return waits === 2 || outcome === undefined;
      });
      expect([...new Set(outcomes)]).toEqual(['DatabaseDown']);
    } finally {
      process.kill(idle.pid, 'SIGCONT');
    }
    await persist(() => rowsOf(name).delete('ns/x', neverAborted));
    expect(await backends(`pid = ${idle.pid}`)).toEqual([]);
    expect(await idsIn(name)).toEqual(['ns/first']);
  });

  test('is ended without ending statements of other roles', async () => {
    const stranger = await server.connect();
    await stranger.query("SET application_name = 'echoperator-of-another-role'");
    const name = await createTable();
    await tables().rowsOf(name).upsert(row('ns/x'), neverAborted);
    expect((await stranger.query('SELECT 1 AS alive')).rows).toEqual([{ alive: 1 }]);
    await stranger.end();
  });
});

describe('a row that the database refuses', () => {
  const policy = `ALTER TABLE $table ENABLE ROW LEVEL SECURITY;
    CREATE POLICY adults ON $table USING (true) WITH CHECK (age >= 18)`;
  const trigger = `CREATE FUNCTION check_$table() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF NEW.age < 18 THEN RAISE EXCEPTION 'too young' USING ERRCODE = 'MY001'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER t BEFORE INSERT ON $table FOR EACH ROW EXECUTE FUNCTION check_$table()`;

  test.each([
    ['a policy', policy],
    ['a trigger with an SQLSTATE of its own', trigger],
  ])('by %s does not delay other rows of its table', async (_, more) => {
    const name = await createTable(more);
    const { rowsOf } = tables();
    const rows = rowsOf(name);
    const ids = Array.from({ length: 10 }, (_, index) => `a/${index}`);
    const upserts = ids.map((id, index) => rows.upsert(row(id, { age: index === 4 ? 3 : 20 }), neverAborted));
    expect(await outcomesOf(upserts)).toEqual(ids.map((_, index) => (index === 4 ? 'RowRefusedError' : 'written')));
    await rows.delete('a/0', neverAborted);
    expect(await idsIn(name)).toEqual(ids.filter((_, index) => index !== 0 && index !== 4));
  });

  test('in a message of a megabyte is reported in 4 kB', async () => {
    const name = await createTable(`CREATE FUNCTION shout_$table() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'too loud %', repeat(' ', 1000000) USING DETAIL = repeat('x', 1000000); END $$;
      CREATE TRIGGER t BEFORE INSERT ON $table FOR EACH ROW EXECUTE FUNCTION shout_$table()`);
    const error = await tables()
      .rowsOf(name)
      .upsert(row('a/x'), neverAborted)
      .catch((thrown: unknown) => thrown);
    expect(String(error)).toContain('too loud');
    expect(String(error)).toContain('characters)');
    expect(inspect(error).length).toBeLessThan(30_000);
  });

  test('to delete because of a reference does not prevent other deletions', async () => {
    const name = await createTable(`CREATE TABLE of_$table (id text REFERENCES $table)`);
    const rows = tables().rowsOf(name);
    const ids = Array.from({ length: 10 }, (_, index) => `a/${index}`);
    await Promise.all(ids.map((id) => rows.upsert(row(id), neverAborted)));
    await server.query(`INSERT INTO of_${name} VALUES ('a/4')`);
    const deletions = await outcomesOf(ids.map((id) => rows.delete(id, neverAborted)));
    expect(deletions).toEqual(ids.map((id) => (id === 'a/4' ? 'RowRefusedError' : 'deleted')));
  });

  test('silently is reported, and so is a row that a trigger changes', async () => {
    const name = await createTable(`CREATE FUNCTION change_$table() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.age < 18 THEN RETURN NULL; END IF; NEW.name := upper(NEW.name); RETURN NEW; END $$;
      CREATE TRIGGER t BEFORE INSERT OR UPDATE ON $table FOR EACH ROW EXECUTE FUNCTION change_$table()`);
    const rows = tables().rowsOf(name);
    const wanted = [row('a/child', { age: 3 }), row('a/loud', { name: 'JANE' }), row('a/jane')];
    expect(await outcomesOf(wanted.map((each) => rows.upsert(each, neverAborted)))).toEqual([
      'RowRefusedError',
      'written',
      'altered',
    ]);
    expect(await outcomesOf(wanted.map((each) => rows.upsert(each, neverAborted)))).toEqual([
      'RowRefusedError',
      'unchanged',
      'altered',
    ]);
    expect(await idsIn(name)).toEqual(['a/jane', 'a/loud']);
  });

  test('silently is reported also if it was in the table before', async () => {
    const name = await createTable();
    const rows = tables().rowsOf(name);
    await rows.upsert(row('a/jane'), neverAborted);
    await server.query(`DELETE FROM ${name};
      CREATE FUNCTION skip_${name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
      CREATE TRIGGER t BEFORE INSERT ON ${name} FOR EACH ROW EXECUTE FUNCTION skip_${name}()`);
    expect(await outcomesOf([rows.upsert(row('a/jane'), neverAborted)])).toEqual(['RowRefusedError']);
    expect(await idsIn(name)).toEqual([]);
  });

  test('silently is not reported if the trigger itself writes it, to a table that inherits', async () => {
    const name = await createTable(`CREATE TABLE part_of_$table () INHERITS ($table);
      CREATE FUNCTION redirect_$table() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO part_of_$table SELECT NEW.*; RETURN NULL; END $$;
      CREATE TRIGGER t BEFORE INSERT ON $table FOR EACH ROW EXECUTE FUNCTION redirect_$table()`);
    const rows = tables().rowsOf(name);
    expect(await outcomesOf([rows.upsert(row('a/jane'), neverAborted)])).toEqual(['unchanged']);
    expect(await idsIn(name)).toEqual(['a/jane']);
  });
});

describe('rows that another client has locked', () => {
  test('hold up no other write or deletion of their table', async () => {
    const name = await createTable();
    const rows = tables().rowsOf(name);
    const ids = Array.from({ length: 20 }, (_, index) => `a/${index}`);
    await Promise.all(ids.map((id) => rows.upsert(row(id), neverAborted)));
    const lock = await locking(`SELECT FROM ${name} WHERE id IN ('a/2', 'a/17') FOR UPDATE`);
    const isLocked = (id: string): boolean => ['a/2', 'a/17'].includes(id);
    try {
      // All of these end while the rows are still locked.
      expect(await outcomesOf(ids.map((id) => rows.upsert(row(id, { age: 22 }), neverAborted)))).toEqual(
        ids.map((id) => (isLocked(id) ? 'RowBusyError' : 'written')),
      );
      expect(await outcomesOf(ids.map((id) => rows.delete(id, neverAborted)))).toEqual(
        ids.map((id) => (isLocked(id) ? 'RowBusyError' : 'deleted')),
      );
    } finally {
      await lock.query('ROLLBACK');
      await lock.end();
    }
    expect(await rows.upsert(row('a/2', { age: 23 }), neverAborted)).toBe('written');
  });

  test('delay only their own PostgresWriters, even if a pooler drops the time limits', async () => {
    // Replaces a value in the message that opens a connection by one of the same length, so that its length field stays
    // correct.
    proxy.onSent((data) => {
      for (const [setting, ms] of [
        ['statement_timeout', '1000'],
        ['lock_timeout', '500'],
      ] as const) {
        const at = data.indexOf(`${setting}\0${ms}\0`);
        if (at >= 0) data.fill('0', at + setting.length + 1, at + setting.length + 1 + ms.length);
      }
    });
    const [name, other] = [await createTable(), await createTable()];
    const { rowsOf } = tables(1);
    const lock = await locking(`LOCK TABLE ${name}`);
    try {
      expect(await outcomesOf([rowsOf(name).upsert(row('a/x'), neverAborted)])).toEqual(['ExternalSystemDownError']);
      await expect(rowsOf(name).upsert(row('a/x'), neverAborted)).rejects.toMatchObject({ reason: 'TableBusy' });
      expect(await rowsOf(other).upsert(row('a/x'), neverAborted)).toBe('written');
      await eventually(
        'none waits on the server',
        async () => (await backends("wait_event_type = 'Lock'")).length === 0,
      );
    } finally {
      await lock.query('ROLLBACK');
      await lock.end();
    }
    await persist(() => rowsOf(name).upsert(row('a/x'), neverAborted));
  });
});

test('a name without an exact match means the table with the name in lower case', async () => {
  await server.query('CREATE SCHEMA school; GRANT USAGE ON SCHEMA school TO writer');
  for (const name of ['public."Both"', 'public.both', 'public.lower', 'school.lower']) {
    await server.query(`CREATE TABLE ${name} (id text PRIMARY KEY, name text, age integer, country text)`);
  }
  const { tables: found } = tables();
  const find = (name: string, schema?: string) => found.find({ schema, name });
  expect(await find('Both')).toEqual({ schema: 'public', name: 'Both' });
  expect(await find('BOTH')).toEqual({ schema: 'public', name: 'both' });
  expect(await find('Lower')).toEqual({ schema: 'public', name: 'lower' });
  expect(await find('LOWER', 'School')).toEqual({ schema: 'school', name: 'lower' });
  await expect(find('Nowhere')).rejects.toMatchObject({ reason: 'TableMissing' });
});
