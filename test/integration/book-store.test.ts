import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findCondition, isControlledBy } from '@echoperator/runtime';
import { Deployment, ResourceQuota, Service } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { parse } from 'yaml';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { scale } from '../../testkit/scale.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import {
  apply,
  childOf,
  claimOf,
  cluster,
  convergesAndRests,
  deploymentOf,
  fixed,
  growOnline,
  imageOf,
  type Key,
  merge,
  podOf,
  requestOf,
  settled,
  setUp,
  spec,
  startOperator,
  statefulSetOf,
  statesOf,
  stopOperator,
  tearDown,
  templateSizeOf,
  unlessAbsent,
  type World,
  withoutReplicas,
  world,
} from './environment/book-store-world.ts';

/** Limits what the claims of the namespace may request in all. */
async function limitStorage({ key }: World, storage: string): Promise<void> {
  const metadata = { ...key, name: 'limit' };
  await cluster.client.apply(
    ResourceQuota,
    { metadata, spec: { hard: { 'requests.storage': storage } } },
    { force: true },
  );
  await eventually('the quota is counted', async () => {
    const { status } = await cluster.client.get(ResourceQuota, metadata);
    return status?.hard?.['requests.storage'] === storage && status.used?.['requests.storage'] !== undefined;
  });
}

beforeAll(() => setUp('book-store'));
afterAll(() => tearDown());

describe('a BookStore', () => {
  test('of the tutorial works unchanged', async () => {
    const example = parse(await readFile(join(import.meta.dirname, '../../examples/book-store.yaml'), 'utf8'));
    const at = await world(example.metadata.name);
    const { key } = at;
    const store = await cluster.client.create(BookStore, { ...example, metadata: { ...example.metadata, ...key } });
    await settled(at);
    const { status } = await eventually('its volume is told', async () => {
      const found = await cluster.client.get(BookStore, key);
      return found.status?.volumes?.every(({ capacity }) => capacity !== undefined) && found;
    });
    expect(status).toMatchObject({
      deploymentName: 'example-bookstore-app',
      appServiceName: 'bookstore-svc',
      appReplicas: 1,
      appReadyReplicas: 1,
      statefulSetName: 'example-bookstore-db',
      databaseServiceName: 'mongodb-service',
      databaseReplicas: 1,
      databaseReadyReplicas: 1,
      volumes: [{ claim: 'data-example-bookstore-db-0', capacity: '2Gi' }],
    });
    expect(status?.conditions?.map(({ type, status: is, reason }) => [type, is, reason])).toEqual([
      ['DatabaseReady', 'True', 'DatabaseServing'],
      ['AppReady', 'True', 'AppServing'],
      ['VolumeResizing', 'False', 'VolumesSettled'],
      ['Ready', 'True', 'AllReady'],
    ]);

    const deployment = await deploymentOf(key);
    const statefulSet = await statefulSetOf(key);
    const appService = await childOf(Service, key, 'bookstore-svc');
    const databaseService = await childOf(Service, key, 'mongodb-service');
    for (const child of [deployment, statefulSet, appService, databaseService]) {
      expect(isControlledBy(child, store)).toBe(true);
    }
    const [app] = deployment.spec?.template.spec?.containers ?? [];
    expect(app).toMatchObject({
      image: 'akash125/pyapp:latest',
      imagePullPolicy: 'IfNotPresent',
      ports: [{ containerPort: 3000 }],
    });
    expect(deployment.spec?.replicas).toBe(1);
    expect(appService.spec).toMatchObject({ type: 'LoadBalancer', ports: [{ port: 80, targetPort: 3000 }] });
    const [database] = statefulSet.spec?.template.spec?.containers ?? [];
    expect(database).toMatchObject({ image: 'mongo:latest', ports: [{ containerPort: 27_017 }] });
    expect(statefulSet.spec).toMatchObject({ replicas: 1, serviceName: 'mongodb-service' });
    expect(databaseService.spec).toMatchObject({ clusterIP: 'None', ports: [{ port: 27_017 }] });
    const labels = (await podOf(key)).metadata.labels ?? {};
    expect(labels).toMatchObject({ ...databaseService.spec?.selector });
    expect(labels).not.toMatchObject({ ...appService.spec?.selector });
    expect(deployment.spec?.template.metadata?.labels).toMatchObject({ ...appService.spec?.selector });
    expect(await requestOf(key)).toBe('2Gi');
    for (const { spec } of [deployment, statefulSet]) {
      expect(spec?.template.spec?.automountServiceAccountToken).toBe(false);
    }
  });

  test.each([
    ['a smaller dbSize', spec({}, { dbSize: '1023Mi' }), 'dbSize cannot shrink from 1Gi to 1023Mi: a volume'],
    [
      'a smaller dbSize, as a number',
      spec({}, { dbSize: 1_000_000_000 }),
      'dbSize cannot shrink from 1Gi to 1000000000: a',
    ],
    ['no dbSize to speak of', spec({}, { dbSize: '0' }), 'dbSize must be more than 0 and less than 8Ei, got 0'],
    ['a dbSize that no volume can have', spec({}, { dbSize: '1e30' }), 'less than 8Ei, got '],
    ['a dbSize that is none', spec({}, { dbSize: 'much' }), 'dbSize'],
    ['another storageClassName', spec({}, { storageClassName: 'another' }), 'storageClassName cannot be changed'],
    ['another Service of the database', spec({}, { serviceName: 'another' }), 'serviceName cannot be changed'],
    ['one Service for two', spec({ serviceName: 'one' }, { serviceName: 'one' }), 'must differ'],
    ['a Service of the other’s default name', spec({ serviceName: 'mongodb-service' }), 'must differ'],
    ['a variable from nothing', spec({ env: [{ name: 'A', valueFrom: {} }] }), 'env[0].valueFrom'],
    [
      'a variable from two sources',
      spec({
        env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'a' }, secretKeyRef: { name: 'a', key: 'b' } } }],
      }),
      'env[0].valueFrom',
    ],
    ['a duration that is none', spec({}, { resizeRestartAfter: 'soon' }), 'resizeRestartAfter'],
  ])('is refused with %s', async (_, wrong, words) => {
    const key = { name: 'shop', namespace: await cluster.namespace() };
    const storageClassName = wrong.bookDB.storageClassName === 'another' ? 'another' : 'one';
    await apply(key, spec({}, { storageClassName: 'one' }));
    await expect(apply(key, { ...wrong, bookDB: { ...wrong.bookDB, storageClassName } })).rejects.toThrow(words);
  });
});

test('a BookStore may write out a default, and the same dbSize in another way', async () => {
  const key = { name: 'shop', namespace: await cluster.namespace() };
  for (const database of [{}, { dbSize: 2 ** 30 }, { dbSize: '1024Mi', serviceName: 'mongodb-service' }, {}])
    await apply(key, spec({}, database));
  await expect(apply(key, spec({}, { serviceName: 'another' }))).rejects.toThrow('serviceName cannot be changed');
});

describe('BookStores', () => {
  test('several in a namespace, with all that the server fills in, are written once: not after a restart or a resync', async () => {
    const resources = { requests: { cpu: '0.5', memory: '1024Mi' }, limits: { memory: '1Gi' } };
    const env = [{ name: 'EMPTY' }, { name: 'NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }];
    await convergesAndRests(8, spec({ resources, env, serviceType: 'NodePort' }, { resources, env, dbSize: '1024Mi' }));
  });
});

describe('bookApp.replicas', () => {
  /** Which of its fields of the Deployment's spec the operator has by apply. */
  async function applied(key: Key): Promise<readonly string[]> {
    const { metadata } = await deploymentOf(key);
    const { managedFields = [] } = metadata as {
      readonly managedFields?: readonly { manager: string; fieldsV1: { 'f:spec'?: object } }[];
    };
    const own = managedFields.find(({ manager }) => manager === 'echoperator');
    return Object.keys(own?.fieldsV1['f:spec'] ?? {});
  }

  test('that are set win over whoever scales the Deployment', async () => {
    const at = await world('shop');
    await apply(at.key, spec({ replicas: 2 }));
    await settled(at);
    await scale(cluster.client, Deployment, { ...at.key, name: 'shop-app' }, 5);
    await eventually('it is put back', async () => (await deploymentOf(at.key)).spec?.replicas === 2);
  });

  test('that are left out are an autoscaler’s', async () => {
    const at = await world('shop');
    await apply(at.key, withoutReplicas(spec()));
    await settled(at);
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(1);
    await scale(cluster.client, Deployment, { ...at.key, name: 'shop-app' }, 5);
    await apply(at.key, withoutReplicas(spec({ tag: 'two' })));
    expect((await settled(at)).status).toMatchObject({ appReplicas: 5, appReadyReplicas: 5 });
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(5);
    expect(imageOf(await deploymentOf(at.key))).toBe('example.com/app:two');
    expect(await applied(at.key)).not.toContain('f:replicas');
  });

  test('that are taken out stay what they were until somebody changes them, and can be set again', async () => {
    const at = await world('shop');
    await apply(at.key, spec({ replicas: 3 }));
    await settled(at);
    expect(await applied(at.key)).toContain('f:replicas');
    const watch = statesOf(Deployment, await deploymentOf(at.key));
    await apply(at.key, withoutReplicas(spec()));
    await settled(at);
    await eventually('they are given up', async () => !(await applied(at.key)).includes('f:replicas'));
    const now = await deploymentOf(at.key);
    expect(Object.keys(now.metadata.annotations ?? {})).not.toContain('blog.velotio.com/replicas');
    expect(now.spec?.replicas).toBe(3);
    // And were never anything else, not for a moment.
    const states = await watch.end();
    expect(states.length).toBeGreaterThan(1);
    expect(states.filter(({ spec }) => spec?.replicas !== 3)).toEqual([]);
    await scale(cluster.client, Deployment, { ...at.key, name: 'shop-app' }, 4);
    await apply(at.key, withoutReplicas(spec({ tag: 'two' })));
    await settled(at);
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(4);
    await apply(at.key, spec({ replicas: 2 }));
    await settled(at);
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(2);
  });
});

test('the Service keeps the address and what others have set when the type goes from LoadBalancer to ClusterIP and back', async () => {
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

test('the data stays where the garbage collector has orphaned the StatefulSet before the operator has seen the deletion', async () => {
  const at = await world('shop');
  await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
  await settled(at);
  await stopOperator('SIGKILL');
  try {
    await cluster.client.delete(BookStore, at.key, { propagationPolicy: 'Orphan' });
    await eventually('the StatefulSet has no owner', async () => {
      const { finalizers = [] } = (await cluster.client.get(BookStore, at.key)).metadata;
      return !finalizers.includes('orphan') && (await statefulSetOf(at.key)).metadata.ownerReferences === undefined;
    });
  } finally {
    await startOperator();
  }
  await eventually(
    'the BookStore is gone',
    async () => (await unlessAbsent(cluster.client.get(BookStore, at.key))) === undefined,
  );
  expect((await statefulSetOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
  expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
});

test('a new BookStore of the same name lowers the request of a claim that has not grown', async () => {
  const at = await world('shop');
  await apply(at.key, spec());
  await settled(at);
  const { uid } = (await claimOf(at.key)).metadata;
  await apply(at.key, spec({}, { dbSize: '20Ti' }));
  await eventually('the claim asks for it', async () => (await requestOf(at.key)) === '20Ti');
  await at.volumes.failToGrow('data-shop-db-0', 'no room left');
  const failing = await settled(at, 'ResizeFailing');
  expect(findCondition(failing.status?.conditions, 'VolumeResizing')?.message).toContain('no room left');
  await expect(apply(at.key, spec({}, { dbSize: '2Gi' }))).rejects.toThrow('dbSize cannot shrink');

  await cluster.client.delete(BookStore, at.key);
  await eventually('its pod is gone', async () => (await unlessAbsent(podOf(at.key))) === undefined);
  await apply(at.key, spec({}, { dbSize: '2Gi' }));
  await growOnline(at, '2Gi');
  await settled(at);
  const claim = await claimOf(at.key);
  expect(claim.metadata.uid).toBe(uid);
  expect(claim.status?.capacity?.storage).toBe('2Gi');
  expect(templateSizeOf(await statefulSetOf(at.key))).toBe('2Gi');
});

test('a refusal by a quota is quoted, and retried', async () => {
  const at = await world('shop');
  await apply(at.key, spec());
  await settled(at);
  await limitStorage(at, '1Gi');
  await apply(at.key, spec({}, { dbSize: '2Gi', tag: 'two' }));
  const store = await settled(at, 'ResizeRefused');
  const condition = findCondition(store.status?.conditions, 'VolumeResizing');
  expect(condition).toMatchObject({ status: 'False', reason: 'ResizeRefused' });
  expect(condition?.message).toContain(
    'the request of claim data-shop-db-0 (capacity 1Gi) cannot be raised from 1Gi to 2Gi: ',
  );
  expect(condition?.message).toContain('exceeded quota: limit');
  await eventually('the new image runs', async () =>
    (await unlessAbsent(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
  );
  await limitStorage(at, '2Gi');
  await growOnline(at, '2Gi');
  await settled(at);
});

test('a StorageClass that cannot grow is named in the condition, and other changes are applied', async () => {
  const at = await world('shop');
  await apply(at.key, spec({}, { storageClassName: fixed }));
  await settled(at);
  const { uid } = (await statefulSetOf(at.key)).metadata;
  await apply(at.key, spec({}, { storageClassName: fixed, dbSize: '2Gi', tag: 'two' }));
  const store = await settled(at, 'StorageClassCannotGrow');
  const condition = findCondition(store.status?.conditions, 'VolumeResizing');
  expect(condition).toMatchObject({ status: 'False', reason: 'StorageClassCannotGrow' });
  expect(condition?.message).toContain(`StorageClass ${fixed} does not have allowVolumeExpansion: true`);
  expect(condition?.message).toContain('the API server says: persistentvolumeclaims "data-shop-db-0" is forbidden');
  expect(await requestOf(at.key)).toBe('1Gi');
  const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  const args = ['--namespace', at.key.namespace, 'get', 'bookstores'];
  const { stdout } = await execa(kubectl, args, { env: { KUBECONFIG: cluster.kubeconfig } });
  const [columns = [], cells = []] = stdout.split('\n').map((line) => line.split(/ +/));
  expect(cells[columns.indexOf('REQUESTED')]).toBe('2Gi');
  expect(cells[columns.indexOf('CAPACITY')]).toBe('1Gi');
  await eventually('the new image runs', async () =>
    (await unlessAbsent(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
  );
  const after = await statefulSetOf(at.key);
  expect(after.metadata.uid).toBe(uid);
  expect(templateSizeOf(after)).toBe('1Gi');
});

test('the pod of a file system that does not grow is restarted, which the chart permits', async () => {
  const at = await world('shop');
  await apply(at.key, spec({}, { resizeRestartAfter: '2s' }));
  await settled(at);
  const { uid } = (await podOf(at.key)).metadata;
  await apply(at.key, spec({}, { resizeRestartAfter: '2s', dbSize: '2Gi' }));
  await eventually('the claim asks for 2Gi', async () => (await requestOf(at.key)) === '2Gi');
  await at.volumes.growVolume('data-shop-db-0');
  await eventually(
    'the pod is another',
    async () => ((await unlessAbsent(podOf(at.key)))?.metadata.uid ?? uid) !== uid,
  );
  await at.volumes.growFileSystem('data-shop-db-0');
  await settled(at);
});
