import { customResourceDefinition, defineKind, withVersion } from '@echoperator/runtime';
import { CustomResourceDefinition, Secret } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import * as Type from 'typebox';
import {
  MigrationError,
  type MigrationOptions,
  migrateStoredObjects,
} from '../../packages/cli/src/migrate/migrate-stored-objects.ts';
import { runCommand } from '../../packages/cli/src/run-command.ts';
import { forEachConcurrently } from '../../packages/testing/src/for-each-concurrently.ts';
import { eventually } from '../../testkit/eventually.ts';
import { freePorts } from '../../testkit/free-ports.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { type RunningWebhooks, runWebhooks } from './environment/running-webhooks.ts';

const names = { group: 'migrate.test', kind: 'Parcel', plural: 'parcels', description: 'A parcel.' };
const status = Type.Object({});
const V1 = defineKind({ ...names, version: 'v1', spec: Type.Object({ who: Type.String() }), status });
const V2 = defineKind({
  ...names,
  version: 'v2',
  spec: Type.Object({ name: Type.String(), size: Type.Optional(Type.Integer()) }),
  status,
});

/** The `who` that cannot be converted. */
let inconvertible: string | undefined;
const Parcel = withVersion(V2, V1, {
  conversion: {
    toStored: ({ spec: { who } }) => {
      if (who === inconvertible) throw new RangeError(`nobody is called ${who}`);
      return { spec: { name: who } };
    },
    fromStored: ({ spec: { name } }) => ({ spec: { who: name } }),
  },
});

const key = { name: 'parcels.migrate.test' };
const count = 300;

let cluster: TestCluster;
let namespace: string;
let port: number;
let webhooks: RunningWebhooks;
/** Undoes what a test did. */
let cleanUp: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  cluster = await TestCluster.connect();
  [port] = await freePorts();
});
afterEach(async () => {
  inconvertible = undefined;
  for (const undo of cleanUp.reverse()) await undo();
  cleanUp = [];
});
afterAll(() => cluster.close());

/** Applies the definition with one of its versions as the stored one. */
async function store(version: 'v1' | 'v2'): Promise<void> {
  const { spec } = customResourceDefinition(Parcel, { conversionService: { namespace: 'parcels', name: 'parcels' } });
  const conversion = {
    strategy: 'Webhook',
    webhook: { conversionReviewVersions: ['v1'], clientConfig: { url: `https://127.0.0.1:${port}/convert` } },
  };
  const versions = spec.versions.map((each) => ({ ...each, storage: each.name === version }));
  const manifest = { metadata: key, spec: { ...spec, conversion, versions } };
  await cluster.client.apply(CustomResourceDefinition, manifest as never, { fieldManager: 'chart', force: true });
}

const storedVersions = async () => (await cluster.client.get(CustomResourceDefinition, key)).status?.storedVersions;

/** Creates objects that are stored in v1, of a definition that stores v2. */
async function start(objects = count): Promise<void> {
  const { client } = cluster;
  namespace = await cluster.namespace();
  await store('v1');
  cleanUp.push(async () => {
    // The webhook has stopped, and the deletion lists objects of both versions.
    const conversion = { strategy: 'None', webhook: null };
    await client.patch(CustomResourceDefinition, key, { type: 'merge', body: { spec: { conversion } } });
    await client.delete(CustomResourceDefinition, key);
    await eventually('the definition is gone', () => cluster.isGone(() => client.get(CustomResourceDefinition, key)));
  });
  await client.create(Secret, { metadata: { name: 'parcel-operator-webhook-certificates', namespace } });
  const options = { name: 'parcel-operator', kinds: [Parcel], namespace, port, certificates: { propagationMs: 1000 } };
  webhooks = await runWebhooks(cluster, options, cleanUp);
  const probe = { metadata: { name: 'probe', namespace }, spec: { name: 'probe' } };
  const isServed = (kind: typeof V1 | typeof V2, manifest: object) => () =>
    client.create(kind as never, manifest as never, { dryRun: true }).then(
      () => true,
      () => false,
    );
  await eventually('the API server converts', isServed(V2, probe));
  await forEachConcurrently(Array(objects).keys(), (index) =>
    client.create(V1, { metadata: { name: `parcel-${index}`, namespace }, spec: { who: `who-${index}` } }),
  );
  await store('v2');
  await eventually('v2 is stored', async () => (await storedVersions())?.length === 2);
  const first = { name: 'parcel-0', namespace };
  const { resourceVersion } = (await client.get(V1, first)).metadata;
  await eventually('the API server rewrites an object', async () => {
    const { metadata } = await client.patch(V1, first, { type: 'merge', body: {} });
    return metadata.resourceVersion !== resourceVersion;
  });
}

const reports: string[] = [];
const migrate = (options: Partial<MigrationOptions> = {}) =>
  migrateStoredObjects(cluster.client, key.name, {
    perSecond: 10_000,
    settleMs: 0,
    report: (line) => reports.push(line),
    ...options,
  });

const versionsOf = async (): Promise<ReadonlyMap<string, string>> => {
  const { items } = await cluster.client.list(V2, { namespace });
  return new Map(items.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
};

/** How many entries of the first map the second one has with another value. */
const changed = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): number =>
  [...before].filter(([name, version]) => after.has(name) && after.get(name) !== version).length;

/** Without the webhook, the API server can read only what is stored in v2. */
async function expectStoredInV2(): Promise<void> {
  const all = await versionsOf();
  await webhooks.stop();
  await forEachConcurrently(all.keys(), (name) => cluster.client.get(V2, { name, namespace }));
}

test('an interrupted migration is run again, and writes only what is not stored in the new version', async () => {
  const { client } = cluster;
  await start();
  const before = await versionsOf();
  const interrupted = new AbortController();
  let writes = 0;
  const counting = client.scoped({
    signal: AbortSignal.timeout(60_000),
    hook: async (request, send) => {
      if (request.verb === 'apply') {
        writes += 1;
        // Another client deletes and edits objects that are listed already.
        if (writes === 10) await client.delete(V1, { name: 'parcel-99', namespace });
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
  await expect(migrateStoredObjects(counting, key.name, options)).rejects.toThrow('interrupted');
  expect(await storedVersions()).toEqual(['v1', 'v2']);
  const half = await versionsOf();
  const first = changed(before, half);
  expect(first).toBeGreaterThan(50);
  expect(first).toBeLessThan(110);

  await migrate();
  expect(await storedVersions()).toEqual(['v2']);
  // One object was rewritten by `start`, one deleted, and one edited.
  expect(changed(half, await versionsOf())).toBe(count - 1 - first - 1);
  expect((await client.get(V2, { name: 'parcel-98', namespace })).spec).toEqual({ name: 'edited' });
  await expectStoredInV2();
}, 120_000);

test('an object that cannot be converted is named, and nothing changes until it is corrected', async () => {
  await start(20);
  inconvertible = 'who-7';
  const before = await storedVersions();
  await expect(migrate()).rejects.toThrow(/parcel-7 cannot be converted from v1 to v2.*nobody is called who-7/);
  expect(await storedVersions()).toEqual(before);
  inconvertible = undefined;
  await migrate();
  expect(await storedVersions()).toEqual(['v2']);
}, 60_000);

test('an object that cannot be written is named, the others are migrated, and the old version stays', async () => {
  const { client } = cluster;
  await start(20);
  const failing = client.scoped({
    signal: AbortSignal.timeout(60_000),
    hook: (request, send) => {
      // As if its conversion failed only now.
      if (request.key?.name === 'parcel-7') inconvertible = 'who-7';
      return send().finally(() => {
        if (request.key?.name === 'parcel-7') inconvertible = undefined;
      });
    },
  });
  const failed = migrateStoredObjects(failing, key.name, { perSecond: 10_000, settleMs: 0, report: () => {} });
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
  await start(5);
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
  await expect(migrateStoredObjects(changing, key.name, options)).rejects.toThrow(
    'parcels.migrate.test: the definition has changed during the migration to v2 (it now stores v1), so ' +
      'status.storedVersions keeps v1, v2: run the command again',
  );
  expect(await storedVersions()).toEqual(['v1', 'v2']);
}, 60_000);

test('waits after a change of the definition, and throttles writes', async () => {
  await start(20);
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
  await start(5);
  const before = process.env.KUBECONFIG;
  process.env.KUBECONFIG = cluster.kubeconfig;
  cleanUp.push(async () => {
    if (before === undefined) delete process.env.KUBECONFIG;
    else process.env.KUBECONFIG = before;
  });
  const errors: string[] = [];
  const output = { out: () => {}, error: (line: string) => errors.push(line) };
  const settled = ['--settle-seconds', '0'];
  expect(await runCommand(['migrate', key.name, ...settled], output)).toBe(0);
  expect(errors.at(-1)).toContain('all objects are stored in v2; removed v1');
  expect(await runCommand(['migrate', key.name, ...settled], output)).toBe(0);
  expect(errors.at(-1)).toBe('parcels.migrate.test: all objects are stored in v2');
  expect(await runCommand(['migrate', 'none.migrate.test'], output)).toBe(1);
  expect(errors.at(-1)).toContain('"none.migrate.test" not found');
  expect(await runCommand(['migrate'], output)).toBe(2);
  expect(await runCommand(['migrate', key.name, '--per-second', '0'], output)).toBe(2);
}, 60_000);
