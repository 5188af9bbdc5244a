import { findCondition, type ObjectKey } from '@echoperator/runtime';
import { Event } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PostgresWriter, postgresWriterFinalizer } from '../../src/kinds/postgres-writer/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { operatorCommand } from '../../testkit/operator-process.ts';
import { connectionsOf } from '../../testkit/postgres-server.ts';
import { idOf, literal, PostgresWorld, quoted } from './environment/postgres-world.ts';

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
  await world.createTable('students');
  await world.createTable('teachers');
  await world.startOperator();
});

afterAll(async () => {
  await world?.[Symbol.asyncDispose]();
});

/** The logs of the stopped operators. */
const outputs: string[] = [];

async function restartOperator(settings: Readonly<Record<string, string>> = {}): Promise<void> {
  outputs.push(await world.stopOperator());
  await world.startOperator(settings);
}

const jane = { table: 'students', name: 'Jane', age: 21, country: 'Peru' } as const;
const messageOf = (writer: PostgresWriter): string => findCondition(writer.status?.conditions, 'Ready')?.message ?? '';

/** Which transaction has written each row: another one is another write. */
const versions = (table: string, key: ObjectKey) =>
  world.database.query(`SELECT id, xmin::text, xmax::text FROM ${table} WHERE id = ${literal(idOf(key))}`);

describe('a PostgresWriter', () => {
  test('has its row and reports it', async () => {
    const key = world.newKey('jane');
    await world.apply(key, jane);
    const { metadata, status } = await world.withReason(key, 'RowWritten');
    expect(await world.rows('students', key)).toEqual([{ id: idOf(key), name: 'Jane', age: 21, country: 'Peru' }]);
    expect(metadata.finalizers).toEqual([postgresWriterFinalizer]);
    expect(status).toMatchObject({ tables: ['public.students'], observedGeneration: 1 });
    expect(findCondition(status?.conditions, 'Ready')).toMatchObject({
      status: 'True',
      message: 'the row is in public.students',
    });
  });

  test('neither writes nor locks a row that is up to date', async () => {
    const key = world.newKey('lasting');
    await world.apply(key, jane);
    await world.withReason(key, 'RowWritten');
    const before = await versions('students', key);
    await world.client.patch(PostgresWriter, key, { type: 'merge', body: { metadata: { labels: { look: 'again' } } } });
    await restartOperator();
    await world.operator.waitUntilIdle('postgreswriter');
    expect(await versions('students', key)).toEqual(before);
  });

  test('leaves no row in a table that exists although its trigger misses another table', async () => {
    await world.createTable('audited');
    await world.database.query(`CREATE TABLE journal (at timestamptz);
      GRANT INSERT ON journal TO writer;
      CREATE FUNCTION journalled() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO journal VALUES (now()); RETURN NULL; END $$;
      CREATE TRIGGER journalled AFTER DELETE ON audited FOR EACH STATEMENT EXECUTE FUNCTION journalled()`);
    const [moved, deleted] = [world.newKey('moved'), world.newKey('deleted')];
    for (const key of [moved, deleted]) {
      await world.apply(key, { ...jane, table: 'audited' });
      await world.withReason(key, 'RowWritten');
    }
    await world.database.query('ALTER TABLE journal RENAME TO journal_of_last_year');
    await world.apply(moved, { ...jane, table: 'teachers' });
    await world.delete(deleted);
    // A table that is missing would count as gone with its rows after a while.
    for (const key of [moved, deleted]) {
      const waiting = await world.withReason(key, 'TableUnsuitable');
      expect(messageOf(waiting)).toContain('relation "journal" does not exist');
      expect(waiting.status?.tables).toContain('public.audited');
    }
    await world.database.query('ALTER TABLE journal_of_last_year RENAME TO journal');
    await world.gone(deleted);
    await world.withReason(moved, 'RowWritten');
    expect(await world.rows('audited', moved)).toEqual([]);
  });

  test('reports by Events that its row was written, updated, moved or restored', async () => {
    const key = world.newKey('told');
    for (const spec of [jane, { ...jane, age: 22 }, { ...jane, age: 22, table: 'teachers' }]) {
      await world.apply(key, spec);
      await world.withReason(key, 'RowWritten');
    }
    await world.database.query(`UPDATE teachers SET age = 99 WHERE id = ${literal(idOf(key))}`);
    await restartOperator();
    const told = await eventually('all four are told', async () => {
      const { items } = await world.client.list(Event, { namespace: key.namespace });
      const own = items.filter(({ regarding }) => regarding?.name === key.name);
      return own.length >= 4 && own;
    });
    expect(told.map(({ reason, note }) => `${reason}: ${note}`).sort()).toEqual([
      'RowMoved: moved the row from public.students to public.teachers',
      'RowRestored: restored the row in public.teachers, which others had changed or deleted',
      'RowUpdated: updated the row in public.students',
      'RowWritten: the row is in public.students',
    ]);
  });

  test('whose table is only written differently is not moved', async () => {
    const key = world.newKey('same');
    await world.apply(key, jane);
    await world.withReason(key, 'RowWritten');
    const before = await versions('students', key);
    await world.apply(key, { ...jane, table: 'public.students' });
    await world.withReason(key, 'RowWritten');
    expect(await versions('students', key)).toEqual(before);
  });

  test.each([
    ['a view of its table', 'shared', 'shared_view'],
    ['the table of its view', 'shared_view', 'shared'],
  ])('that moves to %s keeps its row', async (_, from, to) => {
    await world.createTable('shared');
    await world.database.query('CREATE VIEW shared_view AS SELECT * FROM shared');
    try {
      const key = world.newKey('sharing');
      await world.apply(key, { ...jane, table: from });
      await world.withReason(key, 'RowWritten');
      await world.apply(key, { ...jane, table: to });
      const { status } = await world.withReason(key, 'RowWritten');
      expect(status?.tables).toEqual([`public.${to}`]);
      expect(await world.rows('shared', key)).toHaveLength(1);
      await world.delete(key);
      await world.gone(key);
      expect(await world.rows('shared', key)).toEqual([]);
    } finally {
      await world.database.query('DROP TABLE shared CASCADE');
    }
  });

  test('without a table in its status, like one of the original operator, deletes its row', async () => {
    const key = world.newKey('original');
    const { name, namespace } = key;
    await world.stopOperator();
    try {
      const metadata = { name, namespace, generation: 0, finalizers: [postgresWriterFinalizer] };
      await world.client.create(PostgresWriter, { metadata, spec: { ...jane, table: 'STUDENTS' } });
      await world.database.query(`INSERT INTO students VALUES (${literal(idOf(key))}, 'Jane', 21, 'Peru')`);
      await world.delete(key);
    } finally {
      await world.startOperator();
    }
    await world.gone(key);
    expect(await world.rows('students', key)).toEqual([]);
  });

  test.each([
    ['another schema', 'school', 'students', 'school.students'],
    ['a reserved word', 'public', 'select', 'select'],
    ['capitals', 'public', 'Students', 'Students'],
    ['words', 'my schema', 'my table', 'my schema.my table'],
    ['a dot', 'public', 'year.2026', '"year.2026"'],
    ['quotes', 'public', 'say "hi"', 'say "hi"'],
    ['a quote at its beginning', 'public', '"q"', '"""q"""'],
    ['another script', 'public', '学生', '学生'],
    ['an apostrophe and a backslash', 'public', "o'hara\\n", "o'hara\\n"],
    ['SQL', 'public', 'students; drop table students--', 'students; drop table students--'],
  ])('writes to a table whose name has %s', async (_, schema, name, table) => {
    const sql = `${quoted(schema)}.${quoted(name)}`;
    await world.createTable(name, schema);
    const key = world.newKey('named');
    await world.apply(key, { ...jane, table });
    await world.withReason(key, 'RowWritten');
    expect(await world.rows(sql, key)).toHaveLength(1);
    expect(await world.rows('public.students', key)).toEqual([]);
    await world.delete(key);
    await world.gone(key);
    expect(await world.rows(sql, key)).toEqual([]);
  });

  test.each([
    ['quotes and comments', `Robert'); DROP TABLE students;--`],
    ['a dollar quote', '$$; DROP TABLE students; $$ $1'],
    ['backslashes', "\\'; DROP TABLE students; --\\"],
    ['other scripts', 'Ωмега 世界 👩‍👩‍👧 ﷽'],
    ['lines', 'one\ntwo\r\n\tthree'],
    ['braces and commas, as arrays have', '{"a",NULL,b}'],
    ['NULL', 'NULL'],
  ])('writes a text with %s byte for byte', async (_, text) => {
    const key = world.newKey('texts');
    await world.apply(key, { ...jane, name: text, country: text });
    await world.withReason(key, 'RowWritten');
    expect(await world.rows('students', key)).toEqual([{ id: idOf(key), name: text, age: 21, country: text }]);
  });

  test('detects differences that a collation ignores, and works with columns of other types', async () => {
    await world.database.query(`CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      CREATE TABLE loose (id varchar(300) PRIMARY KEY, name text COLLATE nocase, age bigint, country char(20))`);
    const key = world.newKey('loose');
    await world.apply(key, { ...jane, table: 'loose', name: 'jane' });
    await world.withReason(key, 'RowWritten');
    await world.apply(key, { ...jane, table: 'loose', name: 'JANE' });
    await world.withReason(key, 'RowWritten');
    expect(await world.database.query('SELECT name, country::text FROM loose')).toEqual([
      { name: 'JANE', country: 'Peru' },
    ]);
    const before = await versions('loose', key);
    const other = world.newKey('other');
    await world.apply(other, { ...jane, table: 'loose' });
    await world.withReason(other, 'RowWritten');
    expect(await versions('loose', key)).toEqual(before);
  });
});

describe('a table that cannot be written to is named in the status and checked again without an event', () => {
  test('a missing table', async () => {
    const key = world.newKey('missing');
    await world.apply(key, { ...jane, table: 'pupils' });
    const refused = await world.withReason(key, 'TableMissing');
    expect(messageOf(refused)).toBe('the table pupils: the database has no such table');
    expect(refused.status?.tables).toBeUndefined();
    await world.createTable('pupils');
    await world.withReason(key, 'RowWritten');
    expect(await world.rows('pupils')).toHaveLength(1);
  });

  test('a missing table does not block the deletion of its PostgresWriter', async () => {
    const key = world.newKey('never');
    await world.apply(key, { ...jane, table: 'nowhere' });
    await world.withReason(key, 'TableMissing');
    await world.delete(key);
    await world.gone(key);
  });

  test('a table without a column', async () => {
    await world.database.query('CREATE TABLE narrow (id text PRIMARY KEY, name text, "Age" int)');
    const key = world.newKey('narrow');
    await world.apply(key, { ...jane, table: 'narrow' });
    expect(messageOf(await world.withReason(key, 'ColumnMissing'))).toBe(
      'the table narrow: the table has no column age, country',
    );
    await world.database.query('ALTER TABLE narrow ADD age int, ADD country text');
    await world.withReason(key, 'RowWritten');
  });

  test('a table without permission to write', async () => {
    await world.createTable('forbidden');
    await world.database.query('REVOKE INSERT ON forbidden FROM writer');
    const key = world.newKey('forbidden');
    await world.apply(key, { ...jane, table: 'forbidden' });
    expect(messageOf(await world.withReason(key, 'PermissionDenied'))).toBe(
      'the table forbidden: the role lacks INSERT on the table',
    );
    await world.database.query('GRANT INSERT ON forbidden TO writer');
    await world.withReason(key, 'RowWritten');
  });

  test('a table without any permission, which the status does not name, so a deletion need not delete from it', async () => {
    await world.database.query(`CREATE SCHEMA vault; CREATE TABLE vault.secret (id text PRIMARY KEY, name text, age int, country text);
      REVOKE ALL ON vault.secret FROM writer`);
    const key = world.newKey('secret');
    await world.apply(key, { ...jane, table: 'vault.secret' });
    const refused = await world.withReason(key, 'PermissionDenied');
    expect(messageOf(refused)).toBe(
      'the table vault.secret: the role lacks SELECT, INSERT, UPDATE, DELETE on the table and USAGE on its schema',
    );
    expect(refused.status?.tables).toBeUndefined();
    await world.delete(key);
    await world.gone(key);
    const told = await eventually('an Event says that nothing was deleted', async () => {
      const { items } = await world.client.list(Event, { namespace: key.namespace });
      return items.find(({ regarding, reason }) => regarding?.name === key.name && reason === 'RowNotSought');
    });
    expect(told.note).toContain('the role lacks');
  });

  test('a table without permission to write, from which a deletion deletes a row that another operator has written', async () => {
    await world.createTable('inherited');
    await world.database.query('REVOKE INSERT, UPDATE ON inherited FROM writer');
    const key = world.newKey('inherited');
    await world.database.query(`INSERT INTO inherited VALUES (${literal(idOf(key))}, 'Jane', 21, 'Peru')`);
    await world.apply(key, { ...jane, table: 'inherited' });
    const refused = await world.withReason(key, 'PermissionDenied');
    expect(messageOf(refused)).toBe('the table inherited: the role lacks INSERT, UPDATE on the table');
    expect(refused.status?.tables).toBeUndefined();
    await world.delete(key);
    await world.gone(key);
    expect(await world.rows('inherited')).toEqual([]);
  });

  test('a table without a column, and with permissions only on the id, from which a deletion deletes such a row', async () => {
    await world.createTable('shrunk');
    await world.database.query(`ALTER TABLE shrunk DROP COLUMN country;
      REVOKE ALL ON shrunk FROM writer; GRANT SELECT (id), DELETE ON shrunk TO writer`);
    const key = world.newKey('shrunk');
    await world.database.query(`INSERT INTO shrunk VALUES (${literal(idOf(key))}, 'Jane', 21)`);
    await world.apply(key, { ...jane, table: 'shrunk' });
    await world.withReason(key, 'ColumnMissing');
    await world.delete(key);
    await world.gone(key);
    expect(await world.database.query('SELECT id FROM shrunk')).toEqual([]);
  });

  test.each([
    ['its columns', 'SELECT (id, name, age, country), INSERT (id, name, age, country), UPDATE (name, age, country)'],
    ['the whole table', 'SELECT, INSERT, UPDATE'],
  ])('nothing, if the permissions are those on %s', async (_, grants) => {
    await world.createTable('granted');
    await world.database.query(`REVOKE ALL ON granted FROM writer; GRANT ${grants}, DELETE ON granted TO writer`);
    const key = world.newKey('granted');
    await world.apply(key, { ...jane, table: 'granted' });
    await world.withReason(key, 'RowWritten');
    await world.apply(key, { ...jane, table: 'granted', age: 22 });
    await world.withReason(key, 'RowWritten');
    await world.delete(key);
    await world.gone(key);
    expect(await world.rows('granted')).toEqual([]);
    await world.database.query('DROP TABLE granted');
  });

  test('a permission that was revoked after the row was written: the deletion waits for it', async () => {
    await world.createTable('revoked');
    const key = world.newKey('revoked');
    await world.apply(key, { ...jane, table: 'revoked' });
    await world.withReason(key, 'RowWritten');
    await world.database.query('REVOKE DELETE ON revoked FROM writer');
    await world.delete(key);
    const waiting = await world.withReason(key, 'PermissionDenied');
    expect(messageOf(waiting)).toBe(
      'waiting to delete the row from public.revoked: the table public.revoked: the role lacks DELETE on the table',
    );
    expect(waiting.status?.tables).toEqual(['public.revoked']);
    expect(await world.rows('revoked', key)).toHaveLength(1);
    await world.database.query('GRANT DELETE ON revoked TO writer');
    await world.client.patch(PostgresWriter, key, { type: 'merge', body: { metadata: { labels: { look: 'again' } } } });
    await world.gone(key);
    expect(await world.rows('revoked', key)).toEqual([]);
  });

  test.each([
    ['primary key', 'CREATE TABLE keyless (id text, name text, age int, country text)', 'keyless', 'unique'],
    [
      'columns of fitting types',
      'CREATE TABLE typed (id text PRIMARY KEY, name jsonb, age int, country text)',
      'typed',
      'name',
    ],
  ])('a table without %s', async (_, create, table, words) => {
    await world.database.query(create);
    const key = world.newKey('unfit');
    await world.apply(key, { ...jane, table });
    const message = messageOf(await world.withReason(key, 'TableUnsuitable'));
    expect(message).toContain(`the table public.${table}: `);
    expect(message).toContain(words);
  });
});

const withShortResyncs: Readonly<Record<string, () => Promise<void>>> = {
  'that another client changes or deletes is restored within the resync period': async () => {
    const [key, other] = [world.newKey('guarded'), world.newKey('gone')];
    await world.apply(key, jane);
    await world.apply(other, jane);
    await world.withReason(key, 'RowWritten');
    await world.withReason(other, 'RowWritten');
    await world.database.query(`UPDATE students SET name = 'Mallory' WHERE id = ${literal(idOf(key))};
      DELETE FROM students WHERE id = ${literal(idOf(other))}`);
    await eventually('both are back', async () => {
      const rows = [...(await world.rows('students', key)), ...(await world.rows('students', other))];
      return rows.length === 2 && rows.every(({ name }) => name === 'Jane');
    });
    const { table: _, ...row } = jane;
    expect(await world.rows('students', other)).toEqual([{ id: idOf(other), ...row }]);
  },
  'that a trigger changes is not written again and again': async () => {
    await world.database.query(`CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.name := upper(NEW.name); RETURN NEW; END $$;
      CREATE TRIGGER loud BEFORE INSERT OR UPDATE ON loud FOR EACH ROW EXECUTE FUNCTION loud()`);
    const key = world.newKey('loud');
    await world.apply(key, { ...jane, table: 'loud' });
    const { status } = await world.withReason(key, 'RowAltered');
    expect(findCondition(status?.conditions, 'Ready')).toMatchObject({
      status: 'False',
      message: 'the row is in public.loud, but a trigger or the type of a column has changed it',
    });
    expect(status?.tables).toEqual(['public.loud']);
    const [written] = await versions('loud', key);
    await eventually('a resync has looked', async () => (await versions('loud', key))[0]?.xmin !== written?.xmin);
    const { items } = await world.client.list(Event, { namespace: key.namespace });
    const own = items.filter(({ regarding }) => regarding?.name === key.name);
    expect(own.map(({ reason }) => reason)).toEqual(['RowAltered']);
    await world.apply(key, { ...jane, table: 'loud', name: 'JANE' });
    await world.withReason(key, 'RowWritten');
  },
  'in a dropped table does not delay the deletion for longer than the resync period': async () => {
    const [key, other] = [world.newKey('dropped'), world.newKey('later')];
    await world.apply(key, { ...jane, table: 'doomed' });
    await world.withReason(key, 'RowWritten');
    await world.database.query('DROP TABLE doomed');
    await world.apply(other, { ...jane, table: 'doomed' });
    await world.withReason(other, 'TableMissing');
    for (const each of [key, other]) await world.delete(each);
    for (const each of [key, other]) await world.gone(each);
  },
  'in a dropped table does not delay a move for longer than the resync period': async () => {
    const key = world.newKey('moved');
    await world.apply(key, { ...jane, table: 'abandoned' });
    await world.withReason(key, 'RowWritten');
    await world.database.query('DROP TABLE abandoned');
    await world.apply(key, { ...jane, table: 'teachers' });
    await world.withReason(key, 'TableMissing');
    const { status } = await world.withReason(key, 'RowWritten');
    expect(status?.tables).toEqual(['public.teachers']);
  },
  'in a table that another move has given up is deleted if the table comes back during its own move': async () => {
    const [first, second] = [world.newKey('first'), world.newKey('second')];
    for (const key of [first, second]) {
      await world.apply(key, { ...jane, table: 'lent' });
      await world.withReason(key, 'RowWritten');
    }
    await world.database.query('ALTER TABLE lent RENAME TO borrowed');
    await world.apply(first, { ...jane, table: 'teachers' });
    await world.withReason(first, 'TableMissing');
    expect((await world.withReason(first, 'RowWritten')).status?.tables).toEqual(['public.teachers']);
    await world.apply(second, { ...jane, table: 'teachers' });
    await eventually('the row is in its new table', async () => (await world.rows('teachers', second)).length === 1);
    await world.database.query('ALTER TABLE borrowed RENAME TO lent');
    await eventually('the move has ended', async () => (await world.get(second)).status?.tables?.length === 1);
    expect(await world.rows('lent', second)).toEqual([]);
    expect(await world.rows('teachers', second)).toHaveLength(1);
  },
};

/** They mostly wait for resyncs, so they run at the same time. */
describe('a row, with a short resync period', () => {
  const running = new Map<string, Promise<void>>();

  beforeAll(async () => {
    // Long enough that a table can come back before it counts as gone, also on a busy machine.
    await restartOperator({ RESYNC_SECONDS: '3' });
    for (const table of ['loud', 'doomed', 'abandoned', 'lent']) await world.createTable(table);
    for (const [name, run] of Object.entries(withShortResyncs)) {
      running.set(name, run());
      // Its test reports the error.
      running.get(name)?.catch(() => {});
    }
  });

  afterAll(async () => {
    await restartOperator();
  });

  test.each(Object.keys(withShortResyncs))('%s', (name) => running.get(name));
});

test('the API server refuses a spec that violates the schema', async () => {
  const key = world.newKey('broken');
  await expect(world.apply(key, { ...jane, age: -1 })).rejects.toThrow('spec.age');
  await expect(world.apply(key, { ...jane, table: '' })).rejects.toThrow('spec.table');
  await expect(world.apply(key, { ...jane, name: 'a\u0000b' })).rejects.toThrow('spec.name');
  const { country: _, ...rest } = jane;
  await expect(world.apply(key, rest as typeof jane)).rejects.toThrow('spec.country');
});

const otherTable =
  'this name leads to a table that PSQL_TABLES does not permit: write a permitted table with its schema, in its letter case';

test('with a list of permitted tables, the operator writes only to them', async () => {
  await restartOperator({ PSQL_TABLES: 'public.students,public.planned' });
  try {
    const key = world.newKey('listed');
    await world.database.query('CREATE TABLE IF NOT EXISTS narrow_too (id text)');
    // The reason does not tell which other tables the database has, nor their columns.
    for (const table of ['teachers', 'nowhere', 'narrow_too', 'pg_catalog.pg_class', 'school.teachers']) {
      await world.apply(key, { ...jane, table });
      const refused = await world.withReason(key, 'TableNotAllowed');
      expect(messageOf(refused)).toBe(`the operator may not write to the table ${table} (PSQL_TABLES)`);
      expect(refused.status?.tables).toBeUndefined();
    }
    expect(await world.rows('teachers', key)).toEqual([]);
    // Not the listed one, by the case of its letters. It is not described, and looked for again soon.
    await world.database.query('CREATE TABLE "Planned" (id text)');
    await world.apply(key, { ...jane, table: 'Planned' });
    const message = `the table Planned: ${otherTable}`;
    await eventually('the table is refused', async () => {
      const { status } = await world.client.get(PostgresWriter, key);
      return findCondition(status?.conditions, 'Ready')?.message === message;
    });
    await world.database.query('DROP TABLE "Planned"');
    await world.withReason(key, 'TableMissing');
    await world.apply(key, { ...jane, table: 'planned' });
    await world.withReason(key, 'TableMissing');
    await world.apply(key, jane);
    await world.withReason(key, 'RowWritten');
    await world.delete(key);
    await world.gone(key);
  } finally {
    await world.database.query('DROP TABLE IF EXISTS "Planned", narrow_too');
    await restartOperator();
  }
});

test('explain tells that a row is refused, and no value of it', async () => {
  const settings = { EXPLAIN_DIR: world.folder };
  await restartOperator(settings);
  try {
    await world.createTable('guarded');
    await world.database.query(`ALTER TABLE guarded ADD CHECK (name <> 'hunter2')`);
    const key = world.newKey('guarded');
    await world.apply(key, { ...jane, table: 'guarded', name: 'hunter2' });
    await world.withReason(key, 'RowRefused');
    for (const args of [[`postgreswriter/${key.name}`], [`postgreswriter/${key.name}`, '--json'], ['--since', '300']]) {
      const { stdout } = await operatorCommand(['explain', ...args, '-n', key.namespace], settings);
      expect(stdout).toContain('RowRefused');
      expect(stdout).not.toMatch(/hunter2|Peru/);
    }
    await world.delete(key);
    await world.gone(key);
  } finally {
    await restartOperator();
  }
});

describe('statements and connections', () => {
  test('connections are encrypted and verify the host', async () => {
    // So that there is a connection.
    const key = world.newKey('encrypted');
    await world.apply(key, jane);
    await world.withReason(key, 'RowWritten');
    const [row] = await world.database.query(`SELECT bool_and(s.ssl) AS encrypted
      FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'writer'`);
    expect(row).toEqual({ encrypted: true });
  });

  test('outages leave no connections behind', async () => {
    for (let outage = 0; outage < 3; outage++) {
      await world.database.stop();
      await world.database.restart();
      const key = world.newKey('after');
      await world.apply(key, jane);
      await world.withReason(key, 'RowWritten');
    }
    expect(await connectionsOf(world.database, 'writer')).toBeLessThanOrEqual(4);
  });
});

test('the operator got no Forbidden, logged no error, and logged no password', async () => {
  await restartOperator();
  expect(outputs.length).toBeGreaterThan(3);
  const output = outputs.join('\n');
  expect(output).not.toContain('Forbidden');
  expect(output).not.toContain('"level":50');
  expect(output).not.toContain('of the writer');
});
