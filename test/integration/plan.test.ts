import {
  child,
  cleanedUp,
  customResourceDefinition,
  defineController,
  defineKind,
  type Kind,
  type KubeObject,
  type Manifest,
} from '@echoperator/runtime';
import { ApiError, createClient, kubeconfigConnection } from '@echoperator/runtime/client';
import { ConfigMap, CustomResourceDefinition, Event, Secret } from '@echoperator/runtime/kinds';
import {
  type Plan,
  type PlannedObject,
  type PlannedOperator,
  type PlanOptions,
  planOperator,
} from '@echoperator/runtime/plan';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { Type } from 'typebox';
import { eventually } from '../../testkit/eventually.ts';
import type { TestCluster } from '../../testkit/test-cluster.ts';
import { OwnServer } from './environment/own-server.ts';

const Plant = defineKind({
  group: 'test.example',
  version: 'v1',
  kind: 'Plant',
  plural: 'plants',
  description: 'A plant that grows.',
  spec: Type.Object({ color: Type.String() }),
  status: Type.Object({ height: Type.Optional(Type.Integer()) }),
});

const log = pino({ level: 'silent' });

let server: OwnServer;
let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  server = await OwnServer.start();
  cluster = server.cluster;
  await cluster.client.create(CustomResourceDefinition, customResourceDefinition(Plant) as never);
  await eventually('the kind is served', () => cluster.client.list(Plant));
});
afterAll(async () => {
  await server?.[Symbol.asyncDispose]();
});
beforeEach(async () => {
  namespace = await cluster.namespace();
});

const reasons = { Grown: { ready: 'True', event: 'Normal', meaning: 'It has grown.' } } as const;

const create = <T extends KubeObject>(kind: Kind<T>, name: string, rest: object = {}) =>
  eventually('the object is created', () =>
    cluster.client.create(kind, { metadata: { namespace, name }, ...rest } as unknown as Manifest<T>),
  );

const plant = (name = 'rose') => create(Plant, name, { spec: { color: 'red' } });

async function planWith(
  controller: ReturnType<typeof defineController>,
  setUp?: (operator: PlannedOperator) => Promise<void>,
  options: Partial<PlanOptions> = {},
): Promise<Plan> {
  const connection = await kubeconfigConnection(cluster.kubeconfig);
  return planOperator(
    { name: 'gardener', log, connection, namespaces: [namespace], controllers: [controller], ...options },
    setUp,
  );
}

async function onlyObject(controller: ReturnType<typeof defineController>): Promise<PlannedObject> {
  const { objects } = await planWith(controller);
  expect(objects).toHaveLength(1);
  return objects[0] as PlannedObject;
}

/** All objects that a plan could have changed. */
const contents = async () => {
  const kinds: readonly Kind[] = [Plant, ConfigMap, Secret, Event];
  return Promise.all(kinds.map(async (kind) => (await cluster.client.list(kind, { namespace })).items));
};

test('a plan has the writes of the first reconcile, shows it its own dry runs, and stores nothing', async () => {
  const rose = await plant();
  const owner = {
    apiVersion: 'test.example/v1',
    kind: 'Plant',
    name: 'rose',
    uid: rose.metadata.uid,
    controller: true,
  };
  const metadata = { namespace, ownerReferences: [owner] };
  await create(ConfigMap, 'pot', { metadata: { ...metadata, name: 'pot' }, data: { size: 'small' } });
  await create(ConfigMap, 'weed', { metadata: { ...metadata, name: 'weed' } });
  const before = await contents();
  const seen: unknown[] = [];
  const controller = defineController(Plant, {
    owns: [{ kind: ConfigMap, deletes: true }, Secret],
    reasons,
    finalizer: { name: 'test.example/roots', cleanUp: async () => cleanedUp },
    reconcile: async (_, { apply, applyAll, owned, client, event, get }) => {
      await apply(Secret, { metadata: { name: 'seed' }, stringData: { key: 'hidden' } });
      const pot = child(ConfigMap, { metadata: { name: 'pot' }, data: { size: 'large' } });
      const bed = child(ConfigMap, { metadata: { name: 'bed' }, data: { size: 'huge' } });
      await applyAll([pot, bed], { prune: true });
      seen.push(owned(ConfigMap).map(({ metadata: { name }, data }) => [name, data?.size]));
      seen.push((await client.get(Plant, { namespace, name: 'rose' })).metadata.finalizers, get(Secret, 'seed')?.type);
      event({ type: 'Normal', reason: 'Watered', note: 'must not be sent' });
      return { reason: 'Grown', message: 'grown', status: { height: 3 } };
    },
  });
  const { writes, waitsFor, incomplete } = await onlyObject(controller);
  expect(writes.map(({ action, kind, name, subresource = '' }) => [action, kind, name, subresource].join(' '))).toEqual(
    [
      'change Plant rose ',
      'create Secret seed ',
      'change ConfigMap pot ',
      'create ConfigMap bed ',
      'delete ConfigMap weed ',
      'reason Plant rose status',
    ],
  );
  const pot = writes.find(({ name }) => name === 'pot');
  expect(pot?.fields).toContainEqual({ path: 'data.size', before: 'small', after: 'large' });
  // A second run finds out which deleted objects it would create again.
  expect(seen.slice(0, 3)).toEqual([
    expect.arrayContaining([
      ['pot', 'large'],
      ['bed', 'huge'],
    ]),
    ['test.example/roots'],
    'Opaque',
  ]);
  expect([waitsFor, incomplete]).toEqual([undefined, undefined]);
  expect(await contents()).toEqual(before);
});

test('what a controller sends with other clients of the connection is a dry run too', async () => {
  await plant();
  const controller = defineController(Plant, { reasons, reconcile: async () => {} });
  await planWith(controller, async ({ connection, client, manager }) => {
    const other = createClient(connection, { fieldManager: 'other' });
    await other.create(ConfigMap, { metadata: { namespace, name: 'other' } });
    await other.delete(Plant, { namespace, name: 'rose' });
    await other.deleteCollection(Plant, { namespace });
    await other.close();
    await client.patch(Plant, { namespace, name: 'rose' }, { type: 'merge', body: { spec: { color: 'blue' } } });
    await manager.client.create(ConfigMap, { metadata: { namespace, name: 'another' } });
  });
  const [plants, configMaps] = await contents();
  expect(plants).toMatchObject([{ metadata: { name: 'rose' }, spec: { color: 'red' } }]);
  expect(configMaps?.map(({ metadata }) => metadata.name)).not.toEqual(expect.arrayContaining(['other']));
  expect(configMaps?.map(({ metadata }) => metadata.name)).not.toEqual(expect.arrayContaining(['another']));
});

test('an object that is deleted and created again is a replacement, in the same reconcile or after the deletion', async () => {
  const { metadata } = await plant();
  const owner = { apiVersion: 'test.example/v1', kind: 'Plant', name: 'rose', uid: metadata.uid, controller: true };
  await create(ConfigMap, 'pot', { metadata: { namespace, name: 'pot', ownerReferences: [owner] } });
  const replacing = (waits: boolean) =>
    defineController(Plant, {
      owns: [{ kind: ConfigMap, deletes: true, write: 'create' }],
      reasons,
      reconcile: async (_, { createOnce, delete: deleteChild, get }) => {
        const pot = get(ConfigMap, 'pot');
        if (pot !== undefined && pot.data?.size === undefined) {
          await deleteChild(ConfigMap, pot);
          if (waits) return;
        }
        await createOnce(ConfigMap, { metadata: { name: 'pot' }, data: { size: 'large' } });
      },
    });
  expect(await onlyObject(replacing(true))).toMatchObject({ writes: [{ action: 'replace', name: 'pot' }] });
  const atOnce = await onlyObject(replacing(false));
  expect(atOnce.writes).toMatchObject([{ action: 'replace' }, { action: 'create', note: expect.any(String) }]);
  expect(atOnce.incomplete).toContain('creates ConfigMap');
});

test('where a dry run cannot follow, the plan says so and sends nothing more', async () => {
  await plant();
  const patch = { type: 'merge', body: { data: { a: 'b' } } } as const;
  const created = defineController(Plant, {
    owns: [ConfigMap],
    reasons,
    reconcile: async (_, { apply, client }) => {
      await apply(ConfigMap, { metadata: { name: 'new' } });
      await client.patch(ConfigMap, { namespace, name: 'new' }, patch).catch(() => undefined);
      await apply(ConfigMap, { metadata: { name: 'never' } });
    },
  });
  const afterCreation = await onlyObject(created);
  expect(afterCreation.incomplete).toBe(
    `a dry run cannot follow: it writes ConfigMap ${namespace}/new, which exists only in the dry run`,
  );
  expect(afterCreation.writes.map(({ action, name }) => `${action} ${name}`)).toEqual(['create new', 'change new']);
  const twice = defineController(Plant, {
    reasons,
    reconcile: async (_, { writeStatus }) => {
      await writeStatus({ height: 1 });
      return { reason: 'Grown', message: 'grown', status: { height: 2 } };
    },
  });
  expect((await onlyObject(twice)).incomplete).toContain('was already written in this dry run');
});

test('a call of an external system is reported and ends the plan of the object', async () => {
  await plant();
  const controller = defineController(Plant, {
    owns: [ConfigMap],
    reasons,
    reconcile: async (_, { apply, gate }) => {
      await apply(ConfigMap, { metadata: { name: 'before' } });
      try {
        gate.pass('water the plant');
      } catch {
        // A controller that treats this as an outage must not plan what it would do then.
      }
      await apply(ConfigMap, { metadata: { name: 'after' } });
      return { reason: 'Grown', message: 'grown' };
    },
  });
  const planned = await onlyObject(controller);
  expect(planned).toMatchObject({ externalCall: 'water the plant', writes: [{ name: 'before' }] });
  expect(planned.incomplete).toBeUndefined();
});

test('each object is planned against the cluster as it is', async () => {
  await plant('a');
  await plant('b');
  const found: number[] = [];
  const controller = defineController(Plant, {
    owns: [ConfigMap],
    indexes: { pots: { kind: ConfigMap, values: ({ data }) => [data?.size ?? ''] } },
    reasons,
    reconcile: async ({ metadata: { name } }, { apply, find }) => {
      await apply(ConfigMap, { metadata: { name: `pot-${name}` }, data: { size: 'large' } });
      found.push(find('pots', 'large').length);
    },
  });
  const { objects, reconciled } = await planWith(controller);
  expect([reconciled, objects.length, found]).toEqual([2, 2, [1, 1]]);
});

test('a reconcile that never ends, and ignores its signal, does not hold up the plan', async () => {
  await plant('a');
  await plant('b');
  const controller = defineController(Plant, {
    reasons,
    reconcile: async ({ metadata: { name } }) => (name === 'a' ? new Promise<never>(() => {}) : undefined),
  });
  const { objects, reconciled } = await planWith(controller, undefined, { workers: 1, reconcileTimeoutMs: 500 });
  expect(reconciled).toBe(2);
  expect(objects).toMatchObject([{ name: 'a', incomplete: 'the reconcile did not end in time', writes: [] }]);
});

test('a low rate of requests does not use up the time of a reconcile', async () => {
  for (const name of ['a', 'b', 'c', 'd']) await plant(name);
  const controller = defineController(Plant, {
    owns: [ConfigMap],
    reasons,
    reconcile: async ({ metadata: { name } }, { apply }) => {
      await apply(ConfigMap, { metadata: { name: `pot-${name}` } });
    },
  });
  // Each reconcile sends two requests, so the last ones wait for more than a second.
  const options = { requestsPerSecond: 6, reconcileTimeoutMs: 900 };
  const { objects } = await planWith(controller, undefined, options);
  expect(objects.map(({ incomplete, writes }) => [incomplete, writes.length])).toEqual(Array(4).fill([undefined, 1]));
});

test('a kind that the API server does not serve ends the plan, with its name', async () => {
  const Weed = defineKind({
    group: 'test.example',
    version: 'v1',
    kind: 'Weed',
    plural: 'weeds',
    description: 'Its definition is not applied.',
    spec: Type.Object({}),
    status: Type.Object({}),
  });
  const controller = defineController(Weed, { reasons, reconcile: async () => {} });
  await expect(planWith(controller, undefined, { cacheSyncTimeoutMs: 1000 })).rejects.toThrow(
    'the API server has not listed weeds.test.example for 1 s: apply their CustomResourceDefinitions first',
  );
});

test('an object that changes or is deleted while the plan runs is planned as it is then', async () => {
  await plant('a');
  await plant('b');
  await plant('c');
  const controller = defineController(Plant, {
    owns: [ConfigMap],
    reasons,
    reconcile: async ({ metadata: { name }, spec: { color } }, { apply }) => {
      if (name === 'a') {
        await cluster.client.patch(
          Plant,
          { namespace, name: 'b' },
          { type: 'merge', body: { spec: { color: 'blue' } } },
        );
        await cluster.client.delete(Plant, { namespace, name: 'c' });
        return;
      }
      if (name === 'b' && color === 'red')
        throw new ApiError('GET /x', 409, { code: 409, reason: 'Conflict', message: 'the cache is stale' });
      await apply(ConfigMap, { metadata: { name: `pot-${name}` }, data: { color } });
    },
  });
  const { objects } = await planWith(controller, undefined, { workers: 1 });
  const b = objects.find(({ name }) => name === 'b');
  expect(b).toMatchObject({ writes: [{ action: 'create', name: 'pot-b' }] });
  expect(b?.incomplete).toBeUndefined();
  expect(objects.every(({ incomplete }) => incomplete === undefined)).toBe(true);
});

test('the signal ends a plan at once, also while a reconcile hangs', async () => {
  await plant();
  const stop = new AbortController();
  const controller = defineController(Plant, {
    reasons,
    reconcile: async () => {
      stop.abort(new Error('stopped'));
      return new Promise<never>(() => {});
    },
  });
  await expect(planWith(controller, undefined, { signal: stop.signal })).rejects.toThrow('stopped');
});
