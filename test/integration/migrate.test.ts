import type { KubeObject } from '@echoperator/runtime';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import {
  MigrationError,
  type MigrationOptions,
  migrateStoredObjects,
} from '../../packages/cli/src/migrate/migrate-stored-objects.ts';
import { runCommand } from '../../packages/cli/src/run-command.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { changed, inconvertible, parcels, startParcels, V1, V2 } from './environment/parcels.ts';

const count = 300;

let cluster: TestCluster;
/** Undoes what a test did. */
let cleanUp: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  cluster = await TestCluster.connect();
});
afterEach(async () => {
  inconvertible.clear();
  for (const undo of cleanUp.reverse()) await undo();
  cleanUp = [];
});
afterAll(() => cluster.close());

const reports: string[] = [];
const migrate = (options: Partial<MigrationOptions> = {}) =>
  migrateStoredObjects(cluster.client, parcels.name, {
    perSecond: 10_000,
    settleMs: 0,
    report: (line) => reports.push(line),
    ...options,
  });

test('an interrupted migration is run again, and writes only what is not stored in the new version', async () => {
  const { client } = cluster;
  const { namespace, storedVersions, versions, requireStoredInV2 } = await startParcels(cluster, cleanUp, count);
  const before = await versions();
  const interrupted = new AbortController();
  let writes = 0;
  const counting = client.scoped({
    signal: AbortSignal.timeout(60_000),
    hook: async (request, send) => {
      if (request.verb === 'apply') {
        writes += 1;
        // Another client deletes, replaces and edits objects that are listed already.
        if (writes === 10) {
          await client.delete(V1, { name: 'parcel-99', namespace });
          await client.delete(V1, { name: 'parcel-97', namespace });
          await client.create(V1, { metadata: { name: 'parcel-97', namespace }, spec: { who: 'replaced' } });
        }
        if (writes === 11)
          await client.patch(
            V1,
            { name: 'parcel-98', namespace },
            { type: 'merge', body: { spec: { who: 'edited' } } },
          );
        if (writes === 100) interrupted.abort(new Error('interrupted'));
      }
      return send();
    },
  });
  const options = { perSecond: 10_000, settleMs: 0, report: () => {}, signal: interrupted.signal };
  await expect(migrateStoredObjects(counting, parcels.name, options)).rejects.toThrow('interrupted');
  expect(await storedVersions()).toEqual(['v1', 'v2']);
  const half = await versions();
  const first = changed(before, half);
  expect(first).toBeGreaterThan(50);
  expect(first).toBeLessThan(110);

  await migrate();
  expect(await storedVersions()).toEqual(['v2']);
  // One object was rewritten by `start`, one deleted, and one edited.
  expect(changed(half, await versions())).toBe(count - 1 - first - 1);
  expect((await client.get(V2, { name: 'parcel-98', namespace })).spec).toEqual({ name: 'edited' });
  expect((await client.get(V2, { name: 'parcel-97', namespace })).spec).toEqual({ name: 'replaced' });
  // Fields keep their managers and their versions.
  const { metadata } = (await client.get(V2, { name: 'parcel-7', namespace })) as KubeObject & {
    metadata: { managedFields?: readonly { manager: string; apiVersion: string }[] };
  };
  expect(metadata.managedFields).toMatchObject([{ manager: 'test', apiVersion: 'migrate.test/v1' }]);
  await requireStoredInV2();
}, 120_000);

test('an object that cannot be converted is named, and nothing changes until it is corrected', async () => {
  const { storedVersions } = await startParcels(cluster, cleanUp, 20);
  inconvertible.add('who-7');
  const before = await storedVersions();
  await expect(migrate()).rejects.toThrow(/parcel-7 cannot be converted from v1 to v2.*nobody is called who-7/);
  expect(await storedVersions()).toEqual(before);
  inconvertible.clear();
  await migrate();
  expect(await storedVersions()).toEqual(['v2']);
}, 60_000);

test('an object that cannot be written is named, the others are migrated, and the old version stays', async () => {
  const { client } = cluster;
  const { namespace, storedVersions } = await startParcels(cluster, cleanUp, 20);
  const failing = client.scoped({
    signal: AbortSignal.timeout(60_000),
    hook: (request, send) => {
      // As if its conversion failed only now.
      if (request.key?.name === 'parcel-7') inconvertible.add('who-7');
      return send().finally(() => {
        if (request.key?.name === 'parcel-7') inconvertible.clear();
      });
    },
  });
  const failed = migrateStoredObjects(failing, parcels.name, { perSecond: 10_000, settleMs: 0, report: () => {} });
  await expect(failed).rejects.toThrow(MigrationError);
  await expect(failed).rejects.toThrow(
    new RegExp(
      `^parcels.migrate.test: 1 of 20 objects could not be written in v2, so status.storedVersions keeps v1\\..*\n` +
        `${namespace}/parcel-7: .*nobody is called who-7`,
    ),
  );
  expect(await storedVersions()).toEqual(['v1', 'v2']);
  await migrate();
  expect(await storedVersions()).toEqual(['v2']);
}, 60_000);

test('a definition that changes meanwhile keeps its stored versions', async () => {
  const { client } = cluster;
  const { store, storedVersions } = await startParcels(cluster, cleanUp, 5);
  let isChanged = false;
  const changing = client.scoped({
    signal: AbortSignal.timeout(60_000),
    hook: async (request, send) => {
      if (request.verb === 'apply' && !isChanged) {
        isChanged = true;
        await store('v1');
      }
      return send();
    },
  });
  const options = { perSecond: 10_000, settleMs: 0, report: () => {} };
  await expect(migrateStoredObjects(changing, parcels.name, options)).rejects.toThrow(
    'parcels.migrate.test: the definition has changed during the migration to v2 (it now stores v1), so ' +
      'status.storedVersions keeps v1, v2: run the command again',
  );
  expect(await storedVersions()).toEqual(['v1', 'v2']);
}, 60_000);

test('waits after a change of the definition, and throttles writes', async () => {
  await startParcels(cluster, cleanUp, 20);
  reports.length = 0;
  const startMs = performance.now();
  await migrate({ settleMs: 3_000, perSecond: 10 });
  expect(performance.now() - startMs).toBeGreaterThan(1_500);
  expect(reports[0]).toMatch(
    /^parcels.migrate.test has just changed: waiting \d s until every API server has seen it$/,
  );
  expect(reports.at(-1)).toBe(
    'parcels.migrate.test: all objects are stored in v2; removed v1 from status.storedVersions',
  );
}, 60_000);

test('the command prints its progress and its errors', async () => {
  await startParcels(cluster, cleanUp, 5);
  const before = process.env.KUBECONFIG;
  process.env.KUBECONFIG = cluster.kubeconfig;
  cleanUp.push(async () => {
    if (before === undefined) delete process.env.KUBECONFIG;
    else process.env.KUBECONFIG = before;
  });
  const errors: string[] = [];
  const output = { out: () => {}, error: (line: string) => errors.push(line) };
  const settled = ['--settle-seconds', '0'];
  expect(await runCommand(['migrate', parcels.name, ...settled], output)).toBe(0);
  expect(errors.at(-1)).toContain('all objects are stored in v2; removed v1');
  expect(await runCommand(['migrate', parcels.name, ...settled], output)).toBe(0);
  expect(errors.at(-1)).toBe('parcels.migrate.test: all objects are stored in v2');
  expect(await runCommand(['migrate', 'none.migrate.test'], output)).toBe(1);
  expect(errors.at(-1)).toContain('"none.migrate.test" not found');
  expect(await runCommand(['migrate'], output)).toBe(2);
  expect(await runCommand(['migrate', parcels.name, '--per-second', '0'], output)).toBe(2);
}, 60_000);
