import type { Kind } from '@echoperator/runtime';
import {
  isAlreadyExists,
  isConflict,
  isInvalid,
  isNotFound,
  isUidMismatch,
  kubeconfigConnection,
} from '@echoperator/runtime/client';
import * as readyMadeKinds from '@echoperator/runtime/kinds';
import { ConfigMap, Deployment, Namespace } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { scale } from '../../testkit/scale.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
});
afterAll(() => cluster?.close());

/** Returns the error that refused a request. */
const refusal = (request: Promise<unknown>): Promise<unknown> =>
  request.then(
    (answer) => expect(answer).toBe('a refusal'),
    (error: unknown) => error,
  );

describe('a namespaced kind', () => {
  test('can be created once, read, replaced, patched and deleted, with preconditions', async () => {
    const { client } = cluster;
    const key = { name: 'one', namespace };
    const created = await client.create(ConfigMap, { metadata: key, data: { a: '1' } });
    expect(isAlreadyExists(await refusal(client.create(ConfigMap, { metadata: key })))).toBe(true);
    expect((await client.get(ConfigMap, key)).data).toEqual({ a: '1' });
    expect((await client.get(ConfigMap, key, { resourceVersion: '0' })).metadata.uid).toBe(created.metadata.uid);

    const updated = await client.update(ConfigMap, { ...created, data: { a: '2' } });
    expect(updated.data).toEqual({ a: '2' });
    expect(isConflict(await refusal(client.update(ConfigMap, created)))).toBe(true);

    const merged = await client.patch(ConfigMap, key, { type: 'merge', body: { data: { a: null, b: '3' } } });
    expect(merged.data).toEqual({ b: '3' });
    const patched = await client.patch(ConfigMap, key, {
      type: 'json',
      body: [
        { op: 'test', path: '/data/b', value: '3' },
        { op: 'add', path: '/data/c', value: '4' },
      ],
    });
    expect(patched.data).toEqual({ b: '3', c: '4' });
    const failing = client.patch(ConfigMap, key, {
      type: 'json',
      body: [{ op: 'test', path: '/data/b', value: 'no' }],
    });
    expect(isInvalid(await refusal(failing))).toBe(true);

    const { uid, resourceVersion } = patched.metadata;
    expect(isConflict(await refusal(client.delete(ConfigMap, key, { uid: 'another' })))).toBe(true);
    expect(isConflict(await refusal(client.delete(ConfigMap, key, { resourceVersion: '1' })))).toBe(true);
    expect(await client.delete(ConfigMap, key, { uid, resourceVersion })).toBeUndefined();
    expect(isNotFound(await refusal(client.get(ConfigMap, key)))).toBe(true);
  });

  test('can be applied, with and without force, and only to the object with the given uid', async () => {
    const { client } = cluster;
    const key = { name: 'applied', namespace };
    const absent = client.apply(ConfigMap, { metadata: key, data: { a: '1' } }, { uid: 'gone' });
    expect(isConflict(await refusal(absent))).toBe(true);
    const { metadata } = await client.apply(ConfigMap, { metadata: key, data: { a: '1', b: '1' } });
    const { uid, resourceVersion } = metadata;
    // A field that an apply no longer contains is removed.
    const again = await client.apply(ConfigMap, { metadata: key, data: { a: '2' } }, { uid, resourceVersion });
    expect(again.data).toEqual({ a: '2' });
    expect(isConflict(await refusal(client.apply(ConfigMap, { metadata: key }, { resourceVersion })))).toBe(true);
    expect(isUidMismatch(await refusal(client.apply(ConfigMap, { metadata: key }, { uid: 'another' })))).toBe(true);

    // The same manager under another operation is another owner.
    await client.patch(ConfigMap, key, { type: 'merge', body: { data: { a: '3' } } });
    const data = { a: '4' };
    expect(isConflict(await refusal(client.apply(ConfigMap, { metadata: key, data })))).toBe(true);
    expect((await client.apply(ConfigMap, { metadata: key, data }, { force: true })).data).toEqual(data);
  });

  test('is rejected with all causes', async () => {
    const invalid = cluster.client.create(ConfigMap, { metadata: { name: 'Not A Name', namespace } });
    const error = await refusal(invalid);
    expect(isInvalid(error)).toBe(true);
    expect(error).toMatchObject({ code: 422, causes: [{ field: 'metadata.name', reason: 'FieldValueInvalid' }] });
    expect((error as Error).message).toMatch(
      /^POST \/api\/v1\/namespaces\/.*\/configmaps: 422 Invalid: ConfigMap "Not A Name"/,
    );
  });

  test('can be listed in pages, by selector and at a version, watched, read as metadata only, and deleted as a collection', async () => {
    const { client } = cluster;
    const labels = { set: 'paged' };
    const selection = { namespace, labelSelector: 'set=paged' };
    for (const name of ['p1', 'p2', 'p3']) {
      await client.create(ConfigMap, { metadata: { name, namespace, labels }, data: { name } });
    }
    const first = await client.list(ConfigMap, { ...selection, limit: 2 });
    expect(first.items.map(({ metadata }) => metadata.name)).toEqual(['p1', 'p2']);
    expect(first.metadata.continue).toBeTruthy();
    const second = await client.list(ConfigMap, { ...selection, limit: 2, continue: first.metadata.continue ?? '' });
    expect(second.items.map(({ metadata }) => metadata.name)).toEqual(['p3']);
    expect(second.metadata.resourceVersion).toBe(first.metadata.resourceVersion);

    const { resourceVersion } = first.metadata;
    await client.patch(ConfigMap, { name: 'p1', namespace }, { type: 'merge', body: { data: { name: 'changed' } } });
    const exact = await client.list(ConfigMap, { ...selection, resourceVersion, resourceVersionMatch: 'Exact' });
    expect(exact.items[0]?.data).toEqual({ name: 'p1' });
    const later = await client.list(ConfigMap, { ...selection, resourceVersion, resourceVersionMatch: 'NotOlderThan' });
    expect(later.items).toHaveLength(3);

    const metadata = await client.getMetadata(ConfigMap, { name: 'p1', namespace });
    expect(metadata).toMatchObject({ kind: 'PartialObjectMetadata', metadata: { name: 'p1', labels } });
    expect(metadata).not.toHaveProperty('data');
    const all = await client.listMetadata(ConfigMap, selection);
    expect(all.items.map((item) => [item.metadata.name, 'data' in item])).toEqual([
      ['p1', false],
      ['p2', false],
      ['p3', false],
    ]);

    const watching = new AbortController();
    const watch = { ...selection, timeoutSeconds: 30, signal: watching.signal };
    try {
      for await (const event of client.watch(ConfigMap, { ...watch, resourceVersion })) {
        expect(event).toMatchObject({ type: 'MODIFIED', object: { data: { name: 'changed' } } });
        break;
      }
      const seen: string[] = [];
      for await (const { type, object } of client.watchMetadata(ConfigMap, { ...watch, sendInitialEvents: true })) {
        seen.push(
          type === 'BOOKMARK' ? JSON.stringify(object.metadata.annotations) : `${type} ${object.metadata.name}`,
        );
        if (type === 'BOOKMARK') break;
      }
      expect(seen).toEqual(['ADDED p1', 'ADDED p2', 'ADDED p3', '{"k8s.io/initial-events-end":"true"}']);
    } finally {
      watching.abort();
    }

    const deleted = await client.deleteCollection(ConfigMap, selection);
    expect(deleted.map((object) => object.metadata.name)).toEqual(['p1', 'p2', 'p3']);
    expect((await client.list(ConfigMap, selection)).items).toEqual([]);
  });

  test('has the subresources status and scale', async () => {
    const { client } = cluster;
    const key = { name: 'web', namespace };
    const labels = { app: 'web' };
    const created = await client.create(Deployment, {
      metadata: key,
      // Paused, so that its controller leaves it alone but for the status.
      spec: {
        replicas: 0,
        paused: true,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'web:1' }] } },
      },
    });
    expect(await scale(client, Deployment, key)).toMatchObject({
      kind: 'Scale',
      spec: {},
      status: { selector: 'app=web' },
    });
    expect((await scale(client, Deployment, key, 2)).spec.replicas).toBe(2);

    const condition = { type: 'Merged', status: 'True', reason: 'Test', message: 'by a test' };
    // Its controller writes the status too: who computes from an old one is told.
    const merge = async () => {
      const { resourceVersion } = (await client.get(Deployment, key)).metadata;
      return client.mergeStatus(Deployment, { ...key, resourceVersion }, { conditions: [condition] });
    };
    expect((await untilNoConflict(merge)).status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Merged' }),
    );
    const update = async () => {
      const current = await client.get(Deployment, key);
      const status = { ...current.status, collisionCount: 7 };
      const changed = { ...current, spec: { ...current.spec, replicas: 9 }, status };
      return client.update(Deployment, changed as never, { subresource: 'status' });
    };
    const updated = await untilNoConflict(update);
    expect(updated).toMatchObject({ spec: { replicas: 2 }, status: { collisionCount: 7 } });
    expect(isConflict(await refusal(client.update(Deployment, created, { subresource: 'status' })))).toBe(true);
    await client.delete(Deployment, key, { propagationPolicy: 'Background', gracePeriodSeconds: 0 });
  });
});

/** Reads and writes again for as long as somebody else is quicker. */
async function untilNoConflict<T>(write: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
}

test('a cluster-scoped kind can be created, read, listed and deleted', async () => {
  const { client } = cluster;
  const key = { name: `${namespace}-other` };
  const labels = { set: key.name };
  const created = await client.create(Namespace, { metadata: { ...key, labels } });
  try {
    const updated = await client.update(Namespace, {
      ...created,
      metadata: { ...created.metadata, labels: { ...labels, a: 'b' } },
    });
    expect(updated.metadata.labels).toMatchObject({ a: 'b' });
    await client.patch(Namespace, key, { type: 'merge', body: { metadata: { labels: { a: null } } } });
    const applied = await client.apply(Namespace, { metadata: { ...key, annotations: { c: 'd' } } });
    expect(applied.metadata).toMatchObject({ annotations: { c: 'd' }, labels });
    expect((await client.getMetadata(Namespace, key)).metadata.uid).toBe(created.metadata.uid);
    expect((await client.list(Namespace, { labelSelector: `set=${key.name}` })).items).toHaveLength(1);
  } finally {
    // It stays until its contents are gone: the object as it is on its way out.
    const going = await client.delete(Namespace, key, { uid: created.metadata.uid });
    expect(going?.metadata.deletionTimestamp).toBeDefined();
  }
});

/** A group as the aggregated discovery of the API server describes it. */
interface DiscoveredGroup {
  /** Without a name: the core group. */
  readonly metadata: { readonly name?: string };
  readonly versions: readonly {
    readonly version: string;
    readonly resources: readonly {
      readonly resource: string;
      readonly responseKind: { readonly kind: string };
      readonly scope: Kind['scope'];
    }[];
  }[];
}

/** Every group that the API server serves: the core group has a path of its own. */
async function discoveredGroups(transport: Transport): Promise<readonly DiscoveredGroup[]> {
  const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
  const lists = ['/api', '/apis'].map((path) => transport.request({ method: 'GET', path, accept }));
  return (await Promise.all(lists)).flatMap((list) => (list as { readonly items: DiscoveredGroup[] }).items);
}

describe('the ready-made kinds', () => {
  let transport: Transport;
  beforeAll(async () => {
    transport = new Transport(await kubeconfigConnection(cluster.kubeconfig), { userAgent: 'test' });
  });
  afterAll(() => transport?.close());

  test('are the kinds that the API server serves', async () => {
    const served = new Map<string, Kind>();
    for (const { metadata, versions } of await discoveredGroups(transport)) {
      const { name: group = '' } = metadata;
      // Other groups come from the CustomResourceDefinitions of this and other tests.
      if (group.includes('.') && !group.endsWith('.k8s.io')) continue;
      // The newest version is the first.
      for (const { version, resources } of versions.filter(({ version }) => /^v\d+$/.test(version))) {
        for (const { resource: plural, responseKind, scope } of resources) {
          const name = `${group}/${plural}`;
          const { kind } = responseKind;
          if (!served.has(name)) served.set(name, { group, version, kind, plural, scope });
        }
      }
    }
    const readyMade = Object.values<Kind>(readyMadeKinds).map(
      (kind) => [`${kind.group}/${kind.plural}`, kind] as const,
    );
    expect(Object.fromEntries(readyMade)).toEqual(Object.fromEntries(served));
  });
});
