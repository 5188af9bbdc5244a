import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findCondition, isControlledBy } from '@echoperator/runtime';
import { Deployment, Pod, Service } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { isReady } from '../../src/kinds/shared/pods.ts';
import { eventually } from '../../testkit/eventually.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { scale } from '../../testkit/scale.ts';
import {
  apply,
  childOf,
  claimOf,
  cluster,
  convergesAndRests,
  deploymentOf,
  growOnline,
  imageOf,
  type Key,
  operator,
  podOf,
  reconciled,
  requestOf,
  settled,
  setUp,
  spec,
  statefulSetOf,
  statesOf,
  tearDown,
  unlessAbsent,
  type World,
  withoutReplicas,
  withReason,
  world,
} from './environment/book-store-world.ts';

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

  test('changes images, ports, the type of the Service, environment and resources in place', async () => {
    const at = await world('shop');
    const { key } = at;
    const env = [{ name: 'A', value: '1' }];
    await apply(key, spec({ tag: 'one', serviceType: 'LoadBalancer', env, resources: { requests: { cpu: 1 } } }));
    await settled(at);
    const before = [await deploymentOf(key), await statefulSetOf(key), await childOf(Service, key, 'bookstore-svc')];
    const secretKeyRef = { name: 'login', key: 'password', optional: true };
    await apply(
      key,
      spec(
        { tag: 'two', port: 8080, targetPort: 3001, serviceType: 'NodePort' },
        { tag: 'two', port: 5432, dataPath: '/var/lib/data', env: [{ name: 'PASSWORD', valueFrom: { secretKeyRef } }] },
      ),
    );
    await settled(at);
    const after = [await deploymentOf(key), await statefulSetOf(key), await childOf(Service, key, 'bookstore-svc')];
    expect(after.map(({ metadata }) => metadata.uid)).toEqual(before.map(({ metadata }) => metadata.uid));
    const [app] = (await deploymentOf(key)).spec?.template.spec?.containers ?? [];
    expect(app).toMatchObject({ image: 'example.com/app:two', ports: [{ containerPort: 3001 }], resources: {} });
    expect(app?.env ?? []).toEqual([]);
    expect(app?.ports).toHaveLength(1);
    const service = (await childOf(Service, key, 'bookstore-svc')).spec;
    expect(service).toMatchObject({ type: 'NodePort', ports: [{ port: 8080, targetPort: 3001 }] });
    expect(service?.ports).toHaveLength(1);
    const [database] = (await statefulSetOf(key)).spec?.template.spec?.containers ?? [];
    expect(database).toMatchObject({
      image: 'example.com/db:two',
      ports: [{ containerPort: 5432 }],
      env: [{ name: 'PASSWORD', valueFrom: { secretKeyRef: { name: 'login', key: 'password' } } }],
      volumeMounts: [{ name: 'data', mountPath: '/var/lib/data' }],
    });
    await eventually('the pod was replaced', async () =>
      (await podOf(key)).spec?.containers[0]?.image?.endsWith('two'),
    );
    await apply(key, spec({ serviceType: 'ClusterIP' }));
    await settled(at);
    expect((await childOf(Service, key, 'bookstore-svc')).spec?.type).toBe('ClusterIP');
  });

  test('with a long name, or one with dots, has children with valid names', async () => {
    const at = await world(`shop.${'x'.repeat(100)}`);
    await apply(at.key, spec());
    const { status } = await settled(at);
    expect(status?.statefulSetName).toMatch(/^shop-x{33}-[0-9a-f]{10}-db$/);
    expect(status?.statefulSetName).toHaveLength(52);
    expect(status?.deploymentName).toMatch(/^shop-x+-[0-9a-f]{10}-app$/);
    expect(status?.deploymentName?.length).toBeLessThanOrEqual(63);
  });

  test('with several databases says that they are independent', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 3 }));
    const store = await settled(at, 'IndependentDatabases');
    expect(findCondition(store.status?.conditions, 'Ready')?.status).toBe('True');
    const condition = findCondition(store.status?.conditions, 'DatabaseReady');
    expect(condition).toMatchObject({ status: 'True', reason: 'IndependentDatabases' });
    expect(condition?.message).toContain('each has its own data');
    await apply(at.key, spec());
    await settled(at);
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

  test('may write the same dbSize in another way', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const { uid } = (await statefulSetOf(at.key)).metadata;
    for (const dbSize of [2 ** 30, '1024Mi', '1Gi']) {
      await apply(at.key, spec({}, { dbSize }));
      await settled(at);
    }
    expect((await statefulSetOf(at.key)).metadata.uid).toBe(uid);
    expect(await requestOf(at.key)).toBe('1Gi');
  });

  test("may write out the default name of the database's Service, and leave it out again", async () => {
    const key = { name: 'shop', namespace: await cluster.namespace() };
    for (const serviceName of [undefined, 'mongodb-service', undefined]) {
      await apply(key, spec({}, serviceName === undefined ? {} : { serviceName }));
    }
    await expect(apply(key, spec({}, { serviceName: 'another' }))).rejects.toThrow('serviceName cannot be changed');
  });

  test('is reconciled when the readiness of a pod changes, although no StatefulSet tells of it', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const { labels = {} } = (await podOf(at.key)).metadata;
    // By its name not one of the StatefulSet's.
    const stray = { ...at.key, name: 'stray', labels };
    const containers = [{ name: 'database', image: 'example.com/db' }];
    await cluster.client.create(Pod, { metadata: stray, spec: { containers } });
    await eventually('it runs', async () => isReady(await cluster.client.get(Pod, stray)));
    const before = await reconciled(operator);
    const conditions = [{ type: 'Ready', status: 'False' }];
    await cluster.client.patch(
      Pod,
      stray,
      { type: 'merge', body: { status: { conditions } } },
      { subresource: 'status' },
    );
    await eventually('it is reconciled', async () => (await reconciled(operator)) > before);
  });

  test('whose pods cannot start is not ready until it gets another image', async () => {
    const at = await world('shop');
    await apply(at.key, spec({ tag: 'missing' }, { tag: 'missing' }));
    const runs = (tag: string) => async () =>
      (await unlessAbsent(podOf(at.key)))?.spec?.containers[0]?.image === `example.com/db:${tag}`;
    await eventually('a pod that never becomes ready', runs('missing'));
    const waiting = await eventually('the pods are told of', async () => {
      const store = await cluster.client.get(BookStore, at.key);
      const message = `0 of 1 pods of Deployment shop-app are ready: 1 have the current template (kubectl --namespace ${at.key.namespace} describe deployment shop-app)`;
      return findCondition(store.status?.conditions, 'AppReady')?.message === message && store;
    });
    expect(waiting.status).toMatchObject({ appReadyReplicas: 0, databaseReadyReplicas: 0 });
    const isReady = waiting.status?.conditions?.map(({ type, status }) => [type, status]);
    expect(isReady).toEqual(
      expect.arrayContaining(['AppReady', 'DatabaseReady', 'Ready'].map((type) => [type, 'False'])),
    );
    await apply(at.key, spec({ tag: 'there' }, { tag: 'there' }));
    await eventually('it is replaced', runs('there'));
    await settled(at);
  });

  test('whose pods cannot start says why', async () => {
    const at = await world('shop');
    await apply(at.key, spec({ tag: 'missing' }, { tag: 'missing' }));
    const pods = async () => (await cluster.client.list(Pod, { namespace: at.key.namespace })).items;
    await eventually('its pods are there', async () => (await pods()).length === 2);
    const becomes = async (status: object) => {
      for (const { metadata } of await pods()) {
        await cluster.client.patch(Pod, metadata, { type: 'merge', body: { status } }, { subresource: 'status' });
      }
    };
    const isTold = (words: string) =>
      eventually(`both are told of: ${words}`, async () => {
        const { status } = await cluster.client.get(BookStore, at.key);
        const messages = ['AppReady', 'DatabaseReady'].map((type) => findCondition(status?.conditions, type)?.message);
        return (
          messages[0]?.match(/^0 of 1 pods of Deployment shop-app are ready: pod shop-app-\S+: (.*)$/)?.[1] === words &&
          messages[1]?.match(/^0 of 1 pods of StatefulSet shop-db are ready: pod shop-db-0: (.*)$/)?.[1] === words
        );
      });
    const container = { name: 'any', image: 'any:missing', imageID: '', ready: false, restartCount: 0 };
    const waiting = { reason: 'ImagePullBackOff', message: 'Back-off pulling image "any:missing"' };
    await becomes({ containerStatuses: [{ ...container, state: { waiting } }] });
    await isTold('ImagePullBackOff: Back-off pulling image "any:missing"');
    const terminated = { reason: 'OOMKilled', exitCode: 137 };
    await becomes({ containerStatuses: [{ ...container, state: { terminated } }] });
    await isTold('OOMKilled (exit code 137)');
    const scheduled = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'no node has room' };
    await becomes({ containerStatuses: null, conditions: [scheduled] });
    await isTold('FailedScheduling: no node has room');
  });

  test('whose StatefulSet the API server refuses reports it, retries with backoff, and continues when the cause is gone', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { env: [{ name: 'BAD', value: 'x', valueFrom: { fieldRef: { fieldPath: 'no' } } }] }));
    const store = await settled(at, 'Refused');
    expect(findCondition(store.status?.conditions, 'DatabaseReady')?.message).toContain('env');
    await withReason(at, 'AppReady', 'AppServing');
    const tries = async () =>
      (await operatorWrites(cluster.auditLog, at.key.namespace)).filter(
        ({ objectRef, responseStatus }) => objectRef?.resource === 'statefulsets' && responseStatus?.code === 422,
      ).length;
    const before = await tries();
    await eventually('it is tried again', async () => (await tries()) > before);
    // With a back-off. A hot loop would have tried hundreds of times.
    expect(await tries()).toBeLessThan(20);
    await apply(at.key, spec());
    await settled(at);
  });
});

describe('BookStores', () => {
  test('the claim is mounted where the database has its files, so the data outlives the pod', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const pod = await podOf(at.key);
    expect(pod.spec?.volumes).toContainEqual({ name: 'data', persistentVolumeClaim: { claimName: 'data-shop-db-0' } });
    expect(pod.spec?.containers[0]?.volumeMounts).toContainEqual({ name: 'data', mountPath: '/data/db' });
    await cluster.client.delete(Pod, pod.metadata, { gracePeriodSeconds: 0 });
    const next = await eventually('another pod', async () => {
      const found = await unlessAbsent(podOf(at.key));
      return found !== undefined && found.metadata.uid !== pod.metadata.uid && found;
    });
    expect(next.spec?.volumes).toEqual(expect.arrayContaining([...(pod.spec?.volumes ?? [])]));
  });

  test('two BookStores in a namespace do not overwrite each other', async () => {
    const first = await world('first');
    const second: World = { ...first, key: { ...first.key, name: 'second' } };
    await apply(first.key, spec());
    await settled(first);
    const service = await childOf(Service, first.key, 'mongodb-service');
    await apply(second.key, spec({ tag: 'other' }, { tag: 'other' }));
    const refused = await settled(second, 'NameTaken');
    const { message = '' } = findCondition(refused.status?.conditions, 'DatabaseReady') ?? {};
    expect(message).toContain('Service named mongodb-service');
    // It would write into the other's database.
    expect(await unlessAbsent(deploymentOf(second.key))).toBeUndefined();
    expect(await unlessAbsent(statefulSetOf(second.key))).toBeUndefined();
    expect(await childOf(Service, first.key, 'mongodb-service')).toEqual(service);

    await cluster.client.delete(BookStore, second.key);
    await apply(second.key, spec({ serviceName: 'second-svc', tag: 'other' }, { serviceName: 'second-db' }));
    await settled(second);
    await settled(first);
    expect(imageOf(await deploymentOf(first.key))).toBe('example.com/app:latest');
    expect(imageOf(await deploymentOf(second.key))).toBe('example.com/app:other');
    expect(await childOf(Service, first.key, 'mongodb-service')).toEqual(service);
  });

  test('several in a namespace, with all that the server fills in, are written once: not after a restart or a resync', async () => {
    const resources = { requests: { cpu: '0.5', memory: '1024Mi' }, limits: { memory: '1Gi' } };
    const env = [{ name: 'EMPTY' }, { name: 'NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }];
    await convergesAndRests(8, spec({ resources, env, serviceType: 'NodePort' }, { resources, env, dbSize: '1024Mi' }));
  });

  test('every claim grows, not that of the first replica alone, and not those of present replicas alone', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 3 }));
    await settled(at, 'IndependentDatabases');
    await apply(at.key, spec({}, { replicas: 2 }));
    await eventually('two are left', async () => (await statefulSetOf(at.key)).status?.replicas === 2);
    await settled(at, 'IndependentDatabases');
    await apply(at.key, spec({}, { replicas: 2, dbSize: '2Gi' }));
    await growOnline(at, '2Gi', [0, 1]);
    await settled(at, 'IndependentDatabases');
    expect(await requestOf(at.key, 2)).toBe('2Gi');
  });

  test('a replica count of zero means none', async () => {
    const at = await world('shop');
    await apply(at.key, spec({ replicas: 0 }, { replicas: 0 }));
    expect((await settled(at)).status).toMatchObject({ appReplicas: 0, databaseReplicas: 0 });
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(0);
    expect((await statefulSetOf(at.key)).spec?.replicas).toBe(0);
    await apply(at.key, spec({ replicas: 2 }));
    await settled(at);
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(2);
    await apply(at.key, spec({ replicas: 0 }, { replicas: 0 }));
    await settled(at);
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(0);
    await eventually('the database is gone', async () => (await unlessAbsent(podOf(at.key))) === undefined);
    expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
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
