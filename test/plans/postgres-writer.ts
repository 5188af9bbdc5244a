import { eventually, type Scenario } from '@echoperator/testing';
import { readConfig } from '../../src/config.ts';
import { postgresWriterController } from '../../src/kinds/postgres-writer/controller.ts';
import { PostgresWriter } from '../../src/kinds/postgres-writer/kind.ts';
import { customManifest } from '../../testkit/with-reason.ts';
import type { ExternalSystems } from '../integration/environment/external-systems.ts';
import { FencedSystem } from '../integration/environment/fenced-system.ts';
import type { KindPlans } from './kind-plans.ts';
import { createUpdateDelete, fencedBy, name, settings, update } from './scenario-steps.ts';

const writerSpec = { table: 'students', name: 'Ada', age: 36, country: 'UK' };

/** What all scenarios have in common. */
const writersOf = (
  external: ExternalSystems,
): Pick<Scenario, 'kinds' | 'external' | 'alwaysExternal' | 'addControllers'> => {
  const { psql } = readConfig(external.settings);
  return {
    kinds: [PostgresWriter],
    external: (namespace) => external.rows(namespace),
    // A row that moves is in its new table before it leaves the old one.
    alwaysExternal: (rows) => {
      const inTables = rows.map((row) => (row as { readonly table: string }).table);
      return new Set(inTables).size < inTables.length ? `rows in ${inTables.join(', ')}` : undefined;
    },
    addControllers: async (operator, namespace, hooks) => {
      const fenced = await FencedSystem.database(psql.port, hooks);
      const user = await external.databaseUser(namespace);
      const database = { ...psql, host: '127.0.0.1', port: fenced.port, poolSize: 2, user };
      const { namespaces, ...limits } = settings(namespace);
      const controller = postgresWriterController({ settings: database, ...limits });
      controller.add(fencedBy(hooks.gate, operator), { namespaces });
      return () => fenced.close();
    },
  };
};

/** Statements of PostgreSQL are what is wrong, or what is compared. */
const needsDatabase = 'a simulation has no database, and no sockets';

export const plans: KindPlans = {
  example: { table: 'students', name: 'Alice', age: 23, country: 'Spain' },
  subject: (external) => ({
    kind: PostgresWriter,
    children: [],
    spec: { table: 'students', name: 'Ada', age: 36, country: 'UK' },
    values: { table: ['teachers', 'public.students', '"students"', 'nosuchtable', 'a.b.c', '', 7] },
    refusals: ['TableMissing'],
    external: (namespace) => external.rows(namespace),
  }),
  externalScenarios: (external) => [
    {
      name: 'postgres-writer',
      ...writersOf(external),
      steps: {
        create: ({ client, namespace }) =>
          client.create(PostgresWriter, customManifest({ name, namespace }, writerSpec)),
        update: update(PostgresWriter, { ...writerSpec, name: 'Grace', age: 37, country: 'US' }),
        // The operator learns of a change by others only at a resync, or when the spec changes.
        'row-edited': async (world) => {
          await external.changeRows(world.namespace, 'edited');
          await update(PostgresWriter, { ...writerSpec, age: 38 })(world);
        },
        'row-deleted': async (world) => {
          await external.changeRows(world.namespace, 'deleted');
          await update(PostgresWriter, { ...writerSpec, age: 39 })(world);
        },
        move: ({ client, namespace }) => {
          const spec = { ...writerSpec, table: 'teachers' };
          return client.apply(PostgresWriter, customManifest({ name, namespace }, spec), { force: true });
        },
        delete: ({ client, namespace }) => client.delete(PostgresWriter, { name, namespace }),
      },
    },
    {
      name: 'postgres-writer-in-motion',
      mayOmitWrites: true,
      ...writersOf(external),
      steps: {
        'create-update-delete': createUpdateDelete(PostgresWriter, [writerSpec, { ...writerSpec, table: 'teachers' }]),
        'create-move': async ({ client, namespace }) => {
          await client.create(PostgresWriter, customManifest({ name, namespace }, writerSpec));
          await eventually('the row exists', async () => (await external.rows(namespace)).length > 0);
          const spec = { ...writerSpec, table: 'teachers' };
          await client.apply(PostgresWriter, customManifest({ name, namespace }, spec), { force: true });
        },
        'move-delete': async ({ client, namespace }) => {
          await client.apply(PostgresWriter, customManifest({ name, namespace }, writerSpec), { force: true });
          await eventually('the row exists', async () =>
            JSON.stringify(await external.rows(namespace)).includes(writerSpec.table),
          );
          await client.delete(PostgresWriter, { name, namespace });
        },
      },
    },
  ],
  permissionPlans: ['postgres-writer/create'],
  bugs: [
    {
      name: 'PostgresWriter: a table is not recorded before the row is written',
      file: 'src/kinds/postgres-writer/controller.ts',
      find: 'if (tables.includes(text)) return tables;',
      replace: 'return tables;',
      plans: { perturb: ['postgres-writer-in-motion'] },
      notSimulated: needsDatabase,
    },
    {
      name: 'PostgresWriter: the row stays in the earlier table',
      file: 'src/kinds/postgres-writer/controller.ts',
      find: 'row.deleteFrom(others)',
      replace: 'row.deleteFrom(others.slice(1))',
      plans: { mutate: ['PostgresWriter/table'] },
      notSimulated: needsDatabase,
    },
    {
      name: 'PostgresWriter: the row is not deleted',
      file: 'src/kinds/postgres-writer/controller.ts',
      find: 'row.deleteFrom(tables)',
      replace: 'row.deleteFrom([])',
      plans: { perturb: ['postgres-writer/delete write 1 unsent'] },
      notSimulated: needsDatabase,
    },
    {
      name: 'PostgresWriter: statements do not pass the fence',
      file: 'src/kinds/postgres-writer/controller.ts',
      find: 'new Database({ settings, log, gate }',
      replace: 'new Database({ settings, log }',
      plans: { perturb: ['postgres-writer/create'] },
      notSimulated: needsDatabase,
    },
    {
      name: 'PostgresWriter: a column is not compared',
      file: 'src/kinds/postgres-writer/statements.ts',
      find: `
        OR present.country::text COLLATE "C" IS DISTINCT FROM wanted.country COLLATE "C"\``,
      replace: '`',
      plans: { mutate: ['PostgresWriter/country'] },
      notSimulated: needsDatabase,
    },
    {
      name: 'PostgresWriter: a row is inserted and never updated',
      file: 'src/kinds/postgres-writer/statements.ts',
      find: 'DO UPDATE SET name = excluded.name, age = excluded.age, country = excluded.country',
      replace: 'DO NOTHING',
      plans: { mutate: ['PostgresWriter/name'] },
      notSimulated: needsDatabase,
    },
  ],
};
