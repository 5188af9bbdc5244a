import { controllerOf, findCondition, type KubeObject } from '@echoperator/runtime';
import { ConfigMap, Deployment, Event, PersistentVolumeClaim, Service, StatefulSet } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { forbid } from './environment/admission-policy.ts';
import {
  addSidecar,
  apply,
  childOf,
  cluster,
  deploymentOf,
  imageOf,
  type Key,
  merge,
  settled,
  setUp,
  spec,
  statefulSetOf,
  tearDown,
  unlessAbsent,
  type World,
  withReason,
  world,
} from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-names'));
afterAll(() => tearDown());

/** Waits for an Event of the BookStore whose note starts with `note`. */
const reported = ({ namespace }: Key, note: string): Promise<unknown> =>
  eventually(`an Event "${note}"`, async () => {
    const { items } = await cluster.client.list(Event, { namespace });
    return items.some((event) => event.regarding?.kind === 'BookStore' && event.note?.startsWith(note));
  });

describe("somebody else's edits", () => {
  test('of our fields are reverted, and of other fields kept', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const others = { metadata: { annotations: { note: 'mine' }, labels: { team: 'a' } } };
    for (const kind of [Deployment, StatefulSet] as const) {
      const child = kind === Deployment ? await deploymentOf(at.key) : await statefulSetOf(at.key);
      const [container] = child.spec?.template.spec?.containers ?? [];
      await addSidecar<KubeObject>(kind, child);
      await cluster.client.patch<KubeObject>(kind, child.metadata, {
        type: 'json',
        body: [
          { op: 'test', path: '/spec/template/spec/containers/0/name', value: container?.name },
          { op: 'replace', path: '/spec/template/spec/containers/0/image', value: 'example.com/not-ours' },
        ],
      });
      await merge<KubeObject>(kind, child, { ...others, spec: { revisionHistoryLimit: 3 } });
      const readImage = async () => {
        const now = kind === Deployment ? await deploymentOf(at.key) : await statefulSetOf(at.key);
        return imageOf(now, container?.name) === container?.image && now;
      };
      const now = await eventually('the image is put back', readImage);
      expect(now.metadata).toMatchObject(others.metadata);
      expect(imageOf(now, 'sidecar')).toBe('example.com/sidecar');
      expect(now.spec?.revisionHistoryLimit).toBe(3);
    }
    const service = await childOf(Service, at.key, 'bookstore-svc');
    await cluster.client.patch(Service, service.metadata, {
      type: 'json',
      body: [
        { op: 'replace', path: '/spec/ports/0/targetPort', value: 9 },
        { op: 'replace', path: '/spec/selector', value: { not: 'ours' } },
        { op: 'add', path: '/spec/ports/-', value: { name: 'other', port: 9999, protocol: 'TCP' } },
        { op: 'add', path: '/metadata/annotations/note', value: 'mine' },
      ],
    });
    const mended = await eventually('the Service is put back', async () => {
      const now = await childOf(Service, at.key, 'bookstore-svc');
      return now.spec?.ports?.[0]?.targetPort === 80 && now;
    });
    expect(mended.spec?.selector).toEqual(service.spec?.selector);
    expect(mended.spec?.ports?.map(({ port }) => port)).toEqual([80, 9999]);
    expect(mended.metadata.annotations?.note).toBe('mine');
    await settled(at);
    await reported(at.key, 'applied Service bookstore-svc, which differed from the spec in ');
  });

  // Without its workload a BookStore is not Ready for a while, and reports no other deletion then: one workload for each, at the end.
  test.each([
    [
      [Service, 'bookstore-svc'],
      [Service, 'mongodb-service'],
      [Deployment, 'shop-app'],
    ],
    [[StatefulSet, 'shop-db']],
  ] as const)('that delete a child are undone', async (...children) => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    for (const [kind, name] of children) {
      const { uid } = (await childOf<KubeObject>(kind, at.key, name)).metadata;
      await cluster.client.delete<KubeObject>(kind, { ...at.key, name });
      await eventually(`another ${name}`, async () => {
        const next = await unlessAbsent(childOf<KubeObject>(kind, at.key, name));
        return next !== undefined && next.metadata.uid !== uid;
      });
      await reported(at.key, `created ${kind.kind} ${name}, which was missing`);
    }
    await settled(at);
  });
});

describe('the names of the Services', () => {
  test('stay with the address and what others have set when the type goes from LoadBalancer to ClusterIP and back', async () => {
    const at = await world('shop');
    await apply(at.key, spec({ serviceType: 'LoadBalancer' }));
    await settled(at);
    const service = () => childOf(Service, at.key, 'bookstore-svc');
    const before = await service();
    expect(before.spec?.ports?.[0]?.nodePort).toBeGreaterThan(0);
    await merge(Service, before, { metadata: { annotations: { note: 'mine' } } });
    await apply(at.key, spec({ serviceType: 'ClusterIP' }));
    await settled(at);
    const between = await service();
    expect(between.spec).toMatchObject({ type: 'ClusterIP', clusterIP: before.spec?.clusterIP });
    expect(between.spec?.ports?.[0]?.nodePort).toBeUndefined();
    await apply(at.key, spec({ serviceType: 'LoadBalancer' }));
    await settled(at);
    const after = await service();
    expect(after.spec).toMatchObject({ type: 'LoadBalancer', clusterIP: before.spec?.clusterIP });
    expect(after.spec?.ports?.[0]?.nodePort).toBeGreaterThan(0);
    expect(after.metadata).toMatchObject({ uid: before.metadata.uid, annotations: { note: 'mine' } });
  });

  test('that are taken leave the old Service serving', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const before = await childOf(Service, at.key, 'bookstore-svc');
    const metadata = { ...at.key, name: 'taken' };
    const foreign = await cluster.client.create(Service, { metadata, spec: { ports: [{ port: 1 }] } });
    await apply(at.key, spec({ serviceName: 'taken' }));
    await settled(at, 'NameTaken');
    expect((await childOf(Service, at.key, 'bookstore-svc')).metadata.uid).toBe(before.metadata.uid);
    await cluster.client.delete(Service, foreign.metadata);
    await settled(at);
    await eventually(
      'the old one is gone',
      async () => (await unlessAbsent(childOf(Service, at.key, 'bookstore-svc'))) === undefined,
    );
  });
});

describe('an old Service', () => {
  test('that may not be deleted is reported, and the new one serves', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const trial = { ...at.key, name: 'trial' };
    const remove = () => cluster.client.delete(Service, trial);
    const forbidden = await forbid(cluster.client, {
      namespace: at.key.namespace,
      operation: 'DELETE',
      resource: 'services',
      group: '',
      expression: 'false',
      message: 'no Service is deleted here',
      trial: async () => {
        const there = await unlessAbsent(childOf(Service, at.key, trial.name));
        if (there === undefined)
          await cluster.client.create(Service, { metadata: trial, spec: { ports: [{ port: 1 }] } });
        await remove();
      },
    });
    try {
      await apply(at.key, spec({ serviceName: 'else' }));
      const store = await settled(at, 'Refused');
      expect(findCondition(store.status?.conditions, 'AppReady')?.message).toContain('no Service is deleted here');
      expect(store.status).toMatchObject({ appServiceName: 'else', observedGeneration: store.metadata.generation });
      expect((await childOf(Service, at.key, 'else')).spec?.clusterIP).toMatch(/^\d/);
    } finally {
      await forbidden.remove();
    }
    await eventually('it may be', () => remove().then(() => true));
    await settled(at);
    expect(await unlessAbsent(childOf(Service, at.key, 'bookstore-svc'))).toBeUndefined();
  });
});

describe('a name that is', () => {
  const foreign = {
    Deployment: async (key: Key) => {
      const labels = { app: 'foreign' };
      const template = { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'example.com/c' }] } };
      const metadata = { ...key, name: `${key.name}-app` };
      return cluster.client.create(Deployment, { metadata, spec: { selector: { matchLabels: labels }, template } });
    },
    StatefulSet: async (key: Key) => {
      const labels = { app: 'foreign' };
      const template = { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'example.com/c' }] } };
      const metadata = { ...key, name: `${key.name}-db` };
      const spec = { selector: { matchLabels: labels }, template, serviceName: 'foreign', replicas: 0 };
      return cluster.client.create(StatefulSet, { metadata, spec });
    },
    Service: async (key: Key) =>
      cluster.client.create(Service, { metadata: { ...key, name: 'bookstore-svc' }, spec: { ports: [{ port: 1 }] } }),
    PersistentVolumeClaim: async (key: Key) => {
      const owner = await cluster.client.create(ConfigMap, { metadata: { ...key, name: 'owner' } });
      const { name, uid } = owner.metadata;
      const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, controller: true }];
      return cluster.client.create(PersistentVolumeClaim, {
        metadata: { ...key, name: `data-${key.name}-db-0`, ownerReferences },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      });
    },
  };

  test.each([
    ['Deployment', Deployment, 'AppReady', 'a Deployment named shop-app '],
    ['StatefulSet', StatefulSet, 'DatabaseReady', 'a StatefulSet named shop-db '],
    ['Service', Service, 'AppReady', 'a Service named bookstore-svc '],
    [
      'PersistentVolumeClaim',
      PersistentVolumeClaim,
      'DatabaseReady',
      'claim data-shop-db-0 is controlled by ConfigMap owner',
    ],
  ] as const)(
    "somebody's %s already is a condition, and no fight; when it is free the BookStore goes on",
    async (...of) => {
      const [name, kind, type, message] = of;
      const at = await world('shop');
      const held: KubeObject = await foreign[name](at.key);
      await apply(at.key, spec());
      const store = await withReason(at, type, 'NameTaken');
      expect(findCondition(store.status?.conditions, type)?.message).toContain(message);
      expect(findCondition(store.status?.conditions, 'Ready')).toMatchObject({ status: 'False', reason: 'NameTaken' });
      const now = await cluster.client.get<KubeObject>(kind, held.metadata);
      expect(now.metadata.ownerReferences).toEqual(held.metadata.ownerReferences);
      expect(now.metadata.labels).toEqual(held.metadata.labels);
      await cluster.client.delete<KubeObject>(kind, held.metadata);
      await settled(at);
    },
  );

  test("another BookStore's is taken over when that is gone, and left when it is changed", async () => {
    const first = await world('first');
    const second: World = { ...first, key: { ...first.key, name: 'second' } };
    await apply(first.key, spec());
    await settled(first);
    await apply(second.key, spec({}, { serviceName: 'second-db' }));
    await settled(second, 'NameTaken');
    await apply(first.key, spec({ serviceName: 'else' }));
    await settled(second);
    await settled(first);
    const { items } = await cluster.client.list(Service, { namespace: first.key.namespace });
    const owned = items.map((service) => [service.metadata.name, controllerOf(service)?.name]).sort();
    expect(owned).toEqual([
      ['bookstore-svc', 'second'],
      ['else', 'first'],
      ['mongodb-service', 'first'],
      ['second-db', 'second'],
    ]);
  });
});
