import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { EventsV1Event, V1ConfigMap } from '@kubernetes/client-node';
import { parse } from 'yaml';
import { BookStore } from '../../src/api/index.ts';
import {
  ControllerRevision,
  Deployment,
  PersistentVolumeClaim,
  Pod,
  Service,
  StatefulSet,
} from '../../src/controllers/built-in-kinds.ts';
import {
  builtInKind,
  controllerOf,
  findCondition,
  isControlledBy,
  isNotFound,
  type Kind,
  type KubeObject,
  type ObjectKey,
} from '../../src/runtime/index.ts';
import { operatorWrites } from './environment/audit.ts';
import { ChartRole } from './environment/chart-role.ts';
import { TestCluster } from './environment/cluster.ts';
import { eventually } from './environment/eventually.ts';
import { OperatorProcess } from './environment/operator-process.ts';
import { PlayedCluster, StorageClass } from './environment/played-cluster.ts';
import { customManifest } from './environment/with-reason.ts';

const ConfigMap = builtInKind<V1ConfigMap>({ group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps' });
const Event = builtInKind<EventsV1Event>({ group: 'events.k8s.io', version: 'v1', kind: 'Event', plural: 'events' });

type Spec = BookStore['spec'];
type Key = Required<ObjectKey>;

/** How many stand in one namespace in the test of many. */
const many = Number(process.env.BOOKSTORES ?? 50);
const timeLimitMs = 60_000 + many * 1000;

let cluster: TestCluster;
let role: ChartRole;
let operator: OperatorProcess;
/** Of two StorageClasses: of one the volumes can grow, of the other they cannot. */
let [growable, fixed] = ['', ''];
const worlds: PlayedCluster[] = [];
const outputs: string[] = [];

beforeAll(async () => {
  cluster = await TestCluster.connect();
  const namespace = await cluster.namespace();
  [growable, fixed] = [`growable-${namespace}`, `fixed-${namespace}`];
  for (const [name, allowVolumeExpansion] of [[growable, true] as const, [fixed, false] as const]) {
    await cluster.client.create(StorageClass, {
      metadata: { name },
      provisioner: 'played.example.com',
      allowVolumeExpansion,
    });
  }
  // All that follows is done by just what the chart allows.
  role = await ChartRole.install(cluster, 'book-store-test', namespace);
  operator = await OperatorProcess.start(role.kubeconfig);
}, 60_000);

afterAll(async () => {
  await operator?.stop();
  for (const world of worlds) await world.close();
  for (const name of [growable, fixed]) await cluster?.client.delete(StorageClass, { name });
  await role?.remove();
  await cluster?.close();
}, 2 * timeLimitMs);

async function stopOperator(signal?: 'SIGKILL'): Promise<void> {
  outputs.push((await operator.stop(signal)).output);
}

/** A namespace of its own with all that is played in it. */
async function world(name: string): Promise<{ readonly key: Key; readonly played: PlayedCluster }> {
  const namespace = await cluster.namespace();
  const played = new PlayedCluster(cluster.client, namespace);
  worlds.push(played);
  return { key: { namespace, name }, played };
}
type World = Awaited<ReturnType<typeof world>>;

const spec = (app: Partial<Spec['bookApp']> = {}, db: Partial<Spec['bookDB']> = {}): Spec => ({
  bookApp: { repository: 'example.com/app', replicas: 1, ...app },
  bookDB: { repository: 'example.com/db', dbSize: '1Gi', storageClassName: growable, ...db },
});

/** The same with the app's replicas left to others. */
function withoutReplicas(from: Spec): Spec {
  const { replicas: _, ...bookApp } = from.bookApp;
  return { ...from, bookApp };
}

const apply = (key: ObjectKey, wanted: Spec) =>
  cluster.client.apply(BookStore, customManifest(key, wanted), { force: true });

const childOf = <T extends KubeObject>(kind: Kind<T>, { namespace }: Key, name: string): Promise<T> =>
  cluster.client.get(kind, { namespace, name });
const deploymentOf = (key: Key) => childOf(Deployment, key, `${key.name}-app`);
const statefulSetOf = (key: Key) => childOf(StatefulSet, key, `${key.name}-db`);
const claimOf = (key: Key, ordinal = 0) => childOf(PersistentVolumeClaim, key, `data-${key.name}-db-${ordinal}`);
const podOf = (key: Key, ordinal = 0) => childOf(Pod, key, `${key.name}-db-${ordinal}`);
const requestOf = async (key: Key, ordinal = 0) => (await claimOf(key, ordinal)).spec?.resources?.requests?.storage;
const imageOf = ({ spec }: Deployment | StatefulSet, name = spec?.template.spec?.containers[0]?.name) =>
  spec?.template.spec?.containers.find((container) => container.name === name)?.image;
const templateSizeOf = ({ spec }: StatefulSet) => spec?.volumeClaimTemplates?.[0]?.spec?.resources?.requests?.storage;

/** Undefined where there is none. */
async function ifThere<T>(get: Promise<T>): Promise<T | undefined> {
  return get.catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
}

/** Waits, while pods run and volumes come, until a condition has the reason for the present generation. */
async function withReason({ key, played }: World, type: string, reason: string): Promise<BookStore> {
  let last: unknown;
  const look = async () => {
    await played.play();
    const store = await cluster.client.get(BookStore, key);
    const condition = findCondition(store.status?.conditions, type);
    last = store.status;
    return condition?.reason === reason && condition.observedGeneration === store.metadata.generation && store;
  };
  return eventually(`${key.name} is ${reason}`, look, 60_000).catch((cause: unknown) => {
    throw new Error(`${key.name} never had ${type} with ${reason}; last: ${JSON.stringify(last)}`, { cause });
  });
}

const settled = (at: World, reason = 'AllReady') => withReason(at, 'Ready', reason);

/** Waits, while pods run and volumes come, for what `look` finds. */
const meanwhile = <R>(
  { played }: World,
  what: string,
  look: () => Promise<R | undefined | false>,
  timeoutMs = 60_000,
) =>
  eventually(
    what,
    async () => {
      await played.play();
      return look();
    },
    timeoutMs,
  );

/** Has the volumes of these replicas grow, online, once their claims ask for it. */
async function growOnline(at: World, size: string, ordinals: readonly number[] = [0]): Promise<void> {
  for (const ordinal of ordinals) {
    await eventually(`claim ${ordinal} asks for ${size}`, async () => (await requestOf(at.key, ordinal)) === size);
    await at.played.growVolume(`data-${at.key.name}-db-${ordinal}`);
    await at.played.growFileSystem(`data-${at.key.name}-db-${ordinal}`);
  }
}

/** What somebody else adds to a pod template. */
const addSidecar = <T extends KubeObject>(kind: Kind<T>, { metadata }: T) =>
  cluster.client.patch(kind, metadata, {
    type: 'json',
    body: [
      {
        op: 'add',
        path: '/spec/template/spec/containers/-',
        value: { name: 'sidecar', image: 'example.com/sidecar' },
      },
    ],
  });

const merge = <T extends KubeObject>(kind: Kind<T>, { metadata }: { readonly metadata: ObjectKey }, body: object) =>
  cluster.client.patch(kind, metadata, { type: 'merge', body });

/** Collects every state of an object after one version of it. */
function statesOf<T extends KubeObject>(kind: Kind<T>, { metadata }: { readonly metadata: T['metadata'] }) {
  const states: T[] = [];
  const stop = new AbortController();
  const { name, namespace = '', resourceVersion } = metadata;
  const fieldSelector = `metadata.name=${name}`;
  const watching = (async () => {
    const options = { namespace, fieldSelector, resourceVersion, timeoutSeconds: 300, signal: stop.signal };
    for await (const event of cluster.client.watch(kind, options)) {
      if (event.type === 'ADDED' || event.type === 'MODIFIED') states.push(event.object);
    }
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    end: async (): Promise<readonly T[]> => {
      stop.abort();
      await watching;
      return states;
    },
  };
}

/** What the operator has sent to change something in the namespace, but for Events, whatever was answered. */
const writes = async ({ namespace }: Key) =>
  (await operatorWrites(cluster.auditLog, namespace))
    .filter(({ objectRef }) => objectRef?.resource !== 'events')
    .map(({ verb, objectRef }) => `${verb} ${objectRef?.resource}/${objectRef?.subresource ?? ''} ${objectRef?.name}`);

/** How many reconciles of BookStores have succeeded. */
async function reconciled(by: OperatorProcess): Promise<number> {
  const line = /^controller_runtime_reconcile_total\{controller="bookstore",result="success"\} (\d+)$/m;
  return Number(line.exec(await by.metrics())?.[1] ?? 0);
}

/** Has another operator look at each BookStore when it starts, and so many times more. */
async function restartAndResync(resyncs: number): Promise<void> {
  await stopOperator();
  const stores = (await cluster.client.list(BookStore)).items.length;
  operator = await OperatorProcess.start(role.kubeconfig, { RESYNC_SECONDS: String(1 + many / 50) });
  const look = async () => (await reconciled(operator)) >= (1 + resyncs) * stores;
  await eventually('every BookStore was looked at again', look, timeLimitMs);
  await stopOperator();
  operator = await OperatorProcess.start(role.kubeconfig);
}

describe('a BookStore', () => {
  test('of the tutorial works unchanged', async () => {
    const example = parse(await readFile(join(import.meta.dirname, '../../examples/book-store.yaml'), 'utf8'));
    const at = await world(example.metadata.name);
    const { key } = at;
    const store = await cluster.client.create(BookStore, { ...example, metadata: { ...example.metadata, ...key } });
    await settled(at);
    const { status } = await meanwhile(at, 'its volume is told', async () => {
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
    await meanwhile(at, 'the pod was replaced', async () =>
      (await podOf(key)).spec?.containers[0]?.image?.endsWith('two'),
    );
    await apply(key, spec({ serviceType: 'ClusterIP' }));
    await settled(at);
    expect((await childOf(Service, key, 'bookstore-svc')).spec?.type).toBe('ClusterIP');
  });

  test('of a long name, or one with dots, has children whose names hold', async () => {
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
    ['a smaller dbSize', spec({}, { dbSize: '1023Mi' }), 'dbSize cannot shrink'],
    ['a smaller dbSize, as a number', spec({}, { dbSize: 1_000_000_000 }), 'dbSize cannot shrink'],
    ['no dbSize to speak of', spec({}, { dbSize: '0' }), 'dbSize'],
    ['a dbSize that is none', spec({}, { dbSize: 'much' }), 'dbSize'],
    ['another storageClassName', spec({}, { storageClassName: 'another' }), 'storageClassName cannot be changed'],
    ['one Service for two', spec({ serviceName: 'one' }, { serviceName: 'one' }), 'two names'],
    ['a Service of the other’s default name', spec({ serviceName: 'mongodb-service' }), 'two names'],
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

  test('whose database cannot start is mended by another image', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { tag: 'missing' }));
    const runs = (tag: string) => async () =>
      (await ifThere(podOf(at.key)))?.spec?.containers[0]?.image === `example.com/db:${tag}`;
    await eventually('a pod that never becomes ready', runs('missing'));
    await apply(at.key, spec({}, { tag: 'there' }));
    await eventually('it is replaced', runs('there'));
    await settled(at);
  });

  test('whose StatefulSet the API server refuses says so, and goes on when it is mended', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { env: [{ name: 'BAD', value: 'x', valueFrom: { fieldRef: { fieldPath: 'no' } } }] }));
    const store = await settled(at, 'Refused');
    expect(findCondition(store.status?.conditions, 'DatabaseReady')?.message).toContain('env');
    await withReason(at, 'AppReady', 'AppServing');
    await apply(at.key, spec());
    await settled(at);
  });
});

describe("faults of the original's", () => {
  test('the claim is mounted where the database has its files, so the data outlives the pod', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const pod = await podOf(at.key);
    expect(pod.spec?.volumes).toContainEqual({ name: 'data', persistentVolumeClaim: { claimName: 'data-shop-db-0' } });
    expect(pod.spec?.containers[0]?.volumeMounts).toContainEqual({ name: 'data', mountPath: '/data/db' });
    await cluster.client.delete(Pod, pod.metadata, { gracePeriodSeconds: 0 });
    await meanwhile(at, 'another pod', async () => {
      const next = await ifThere(podOf(at.key));
      return next !== undefined && next.metadata.uid !== pod.metadata.uid && next;
    });
    expect((await podOf(at.key)).spec?.volumes).toEqual(expect.arrayContaining([...(pod.spec?.volumes ?? [])]));
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
    expect(await ifThere(deploymentOf(second.key))).toBeUndefined();
    expect(await ifThere(statefulSetOf(second.key))).toBeUndefined();
    expect(await childOf(Service, first.key, 'mongodb-service')).toEqual(service);

    await apply(second.key, spec({ serviceName: 'second-svc', tag: 'other' }, { serviceName: 'second-db' }));
    await settled(second);
    await settled(first);
    expect(imageOf(await deploymentOf(first.key))).toBe('example.com/app:latest');
    expect(imageOf(await deploymentOf(second.key))).toBe('example.com/app:other');
    expect(await childOf(Service, first.key, 'mongodb-service')).toEqual(service);
  });

  test('what the server fills in is no difference: no object is written again', async () => {
    const at = await world('shop');
    const resources = { requests: { cpu: '0.5', memory: '1024Mi' }, limits: { memory: '1Gi' } };
    const env = [{ name: 'EMPTY' }, { name: 'NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }];
    await apply(at.key, spec({ resources, env, serviceType: 'NodePort' }, { resources, env, dbSize: '1024Mi' }));
    await settled(at);
    const before = await writes(at.key);
    await restartAndResync(3);
    expect(await writes(at.key)).toEqual(before);
  });

  test('every claim grows, not that of the first replica alone, and not those of present replicas alone', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 3 }));
    await settled(at, 'IndependentDatabases');
    await apply(at.key, spec({}, { replicas: 2 }));
    await meanwhile(at, 'two are left', async () => (await statefulSetOf(at.key)).status?.replicas === 2);
    await settled(at, 'IndependentDatabases');
    await apply(at.key, spec({}, { replicas: 2, dbSize: '2Gi' }));
    await growOnline(at, '2Gi', [0, 1]);
    await settled(at, 'IndependentDatabases');
    expect(await requestOf(at.key, 2)).toBe('2Gi');
    expect(templateSizeOf(await statefulSetOf(at.key))).toBe('2Gi');
  });

  test('a replica count of zero is one', async () => {
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
    await meanwhile(at, 'the database is gone', async () => (await ifThere(podOf(at.key))) === undefined);
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
    await cluster.client.patchScale(Deployment, { ...at.key, name: 'shop-app' }, 5);
    await eventually('it is put back', async () => (await deploymentOf(at.key)).spec?.replicas === 2);
  });

  test('that are left out are an autoscaler’s', async () => {
    const at = await world('shop');
    await apply(at.key, withoutReplicas(spec()));
    await settled(at);
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(1);
    await cluster.client.patchScale(Deployment, { ...at.key, name: 'shop-app' }, 5);
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
    await cluster.client.patchScale(Deployment, { ...at.key, name: 'shop-app' }, 4);
    await apply(at.key, withoutReplicas(spec({ tag: 'two' })));
    await settled(at);
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(4);
    await apply(at.key, spec({ replicas: 2 }));
    await settled(at);
    expect((await deploymentOf(at.key)).spec?.replicas).toBe(2);
  });
});

describe("somebody else's edits", () => {
  test('of what is ours are put back, and of what is not ours left alone', async () => {
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
      const look = async () => {
        const now = kind === Deployment ? await deploymentOf(at.key) : await statefulSetOf(at.key);
        return imageOf(now, container?.name) === container?.image && now;
      };
      const now = await meanwhile(at, 'the image is put back', look);
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
  });

  test('that delete a child are undone', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const names = [
      [Deployment, 'shop-app'],
      [StatefulSet, 'shop-db'],
      [Service, 'bookstore-svc'],
      [Service, 'mongodb-service'],
    ] as const;
    for (const [kind, name] of names) {
      const { uid } = (await childOf<KubeObject>(kind, at.key, name)).metadata;
      await cluster.client.delete<KubeObject>(kind, { ...at.key, name });
      await eventually(`another ${name}`, async () => {
        const next = await ifThere(childOf<KubeObject>(kind, at.key, name));
        return next !== undefined && next.metadata.uid !== uid;
      });
    }
    await settled(at);
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
    ['Deployment', Deployment, 'AppReady'],
    ['StatefulSet', StatefulSet, 'DatabaseReady'],
    ['Service', Service, 'AppReady'],
    ['PersistentVolumeClaim', PersistentVolumeClaim, 'DatabaseReady'],
  ] as const)(
    "somebody's %s already is a condition, and no fight; when it is free the BookStore goes on",
    async (...of) => {
      const [name, kind, type] = of;
      const at = await world('shop');
      const held: KubeObject = await foreign[name](at.key);
      await apply(at.key, spec());
      const store = await withReason(at, type, 'NameTaken');
      expect(findCondition(store.status?.conditions, type)?.message).toContain(`${name} named ${held.metadata.name}`);
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
    await apply(second.key, spec());
    await settled(second, 'NameTaken');
    await apply(first.key, spec({ serviceName: 'else' }, { serviceName: 'elsewhere' }));
    await settled(second);
    await settled(first);
    // The StatefulSet of the first was made anew for its Service's name.
    expect((await statefulSetOf(first.key)).spec?.serviceName).toBe('elsewhere');
    const { items } = await cluster.client.list(Service, { namespace: first.key.namespace });
    const owned = items.map((service) => [service.metadata.name, controllerOf(service)?.name]).sort();
    expect(owned).toEqual([
      ['bookstore-svc', 'second'],
      ['else', 'first'],
      ['elsewhere', 'first'],
      ['mongodb-service', 'second'],
    ]);
  });
});

describe('the data', () => {
  test('is retained by default, and taken up by the next BookStore of the name', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2 }));
    await settled(at, 'IndependentDatabases');
    const before = [await claimOf(at.key, 0), await claimOf(at.key, 1)];
    expect(before.flatMap(({ metadata }) => metadata.ownerReferences ?? [])).toEqual([]);
    await cluster.client.delete(BookStore, at.key);
    await eventually('all else is gone', async () => {
      const left = [
        await ifThere(deploymentOf(at.key)),
        await ifThere(statefulSetOf(at.key)),
        await ifThere(podOf(at.key)),
        await ifThere(childOf(Service, at.key, 'bookstore-svc')),
        await ifThere(childOf(Service, at.key, 'mongodb-service')),
      ];
      return left.every((each) => each === undefined);
    });
    const { items: revisions } = await cluster.client.list(ControllerRevision, { namespace: at.key.namespace });
    expect(revisions.filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toEqual([]);
    await apply(at.key, spec({}, { dbSize: '2Gi' }));
    await growOnline(at, '2Gi', [0]);
    await settled(at);
    for (const [ordinal, { metadata }] of before.entries()) {
      const claim = await claimOf(at.key, ordinal);
      expect(claim.metadata.uid).toBe(metadata.uid);
      expect(claim.spec?.resources?.requests?.storage).toBe('2Gi');
    }
  });

  test('larger than asked for stays as large', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { dbSize: '3Gi' }));
    await settled(at);
    await cluster.client.delete(BookStore, at.key);
    await eventually('it is gone', async () => (await ifThere(statefulSetOf(at.key))) === undefined);
    await apply(at.key, spec({}, { dbSize: '1Gi' }));
    expect((await settled(at)).status?.volumes).toEqual([{ claim: 'data-shop-db-0', capacity: '3Gi' }]);
    expect(await requestOf(at.key)).toBe('3Gi');
  });

  test('is there at once for a BookStore that takes the place of another, which is no fight over names', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const before = (await claimOf(at.key)).metadata.uid;
    await cluster.client.delete(BookStore, at.key);
    await apply(at.key, spec());
    await settled(at);
    expect((await claimOf(at.key)).metadata.uid).toBe(before);
    const { items } = await cluster.client.list(Event, { namespace: at.key.namespace });
    expect(items.map(({ reason }) => reason)).not.toContain('NameTaken');
  });

  test('goes with the BookStore where its policy is Delete, and with nothing else', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2, reclaimPolicy: 'Delete' }));
    await settled(at, 'IndependentDatabases');
    const finalizers = async () => (await cluster.client.get(BookStore, at.key)).metadata.finalizers ?? [];
    expect(await finalizers()).toEqual(['blog.velotio.com/delete-data']);
    const { uid } = (await claimOf(at.key)).metadata;

    // Not with the StatefulSet, and not with a replica.
    const before = (await statefulSetOf(at.key)).metadata.uid;
    await cluster.client.delete(StatefulSet, { ...at.key, name: 'shop-db' });
    await meanwhile(at, 'another StatefulSet', async () => {
      const next = await ifThere(statefulSetOf(at.key));
      return next !== undefined && next.metadata.uid !== before;
    });
    await settled(at, 'IndependentDatabases');
    await apply(at.key, spec({}, { replicas: 1, reclaimPolicy: 'Delete' }));
    await settled(at);
    for (const ordinal of [0, 1]) expect((await claimOf(at.key, ordinal)).metadata.deletionTimestamp).toBeUndefined();
    expect((await claimOf(at.key)).metadata.uid).toBe(uid);

    await apply(at.key, spec({}, { reclaimPolicy: 'Retain' }));
    await eventually('nothing waits for the data', async () => (await finalizers()).length === 0);
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await eventually('it is waited for', async () => (await finalizers()).length === 1);
    await settled(at);
    await cluster.client.delete(BookStore, at.key);
    const isGone = async (ordinal: number) => (await ifThere(claimOf(at.key, ordinal))) === undefined;
    await eventually('the claims are gone', async () => (await isGone(0)) && (await isGone(1)), 60_000);
    await eventually(
      'the BookStore is gone',
      async () => (await ifThere(cluster.client.get(BookStore, at.key))) === undefined,
    );
  });

  test('stays where the policy says so in the moment of the deletion, also if nobody has seen that before', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    const { uid } = (await claimOf(at.key)).metadata;
    await stopOperator('SIGKILL');
    try {
      await apply(at.key, spec({}, { reclaimPolicy: 'Retain' }));
      await cluster.client.delete(BookStore, at.key);
    } finally {
      operator = await OperatorProcess.start(role.kubeconfig);
    }
    await eventually('it is gone', async () => (await ifThere(cluster.client.get(BookStore, at.key))) === undefined);
    await eventually('its pod is gone', async () => (await ifThere(podOf(at.key))) === undefined);
    const claim = await claimOf(at.key);
    expect([claim.metadata.uid, claim.metadata.deletionTimestamp]).toEqual([uid, undefined]);
  });

  test('is not what only has a name like it', async () => {
    const at = await world('shop');
    const others = ['data-shop-db-00', 'data-shop-db-20261121'];
    for (const name of others) {
      const claim = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
      const storageClassName = growable;
      const metadata = { ...at.key, name };
      await cluster.client.create(PersistentVolumeClaim, { metadata, spec: { ...claim, storageClassName } });
    }
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete', dbSize: '2Gi' }));
    await growOnline(at, '2Gi');
    await settled(at);
    await cluster.client.delete(BookStore, at.key);
    await eventually('its claim is gone', async () => (await ifThere(claimOf(at.key))) === undefined, 60_000);
    for (const name of others) {
      const claim = await childOf(PersistentVolumeClaim, at.key, name);
      expect(claim.metadata.deletionTimestamp).toBeUndefined();
      expect(claim.spec?.resources?.requests?.storage).toBe('1Gi');
    }
  });
});

describe('growing', () => {
  test('an online growth restarts nothing, and gives later replicas the new size', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2, env: [{ name: 'A', value: '1' }] }));
    await settled(at, 'IndependentDatabases');
    const before = await statefulSetOf(at.key);
    await addSidecar(StatefulSet, before);
    await merge(StatefulSet, before, { metadata: { annotations: { note: 'mine' } }, spec: { minReadySeconds: 0 } });
    await meanwhile(at, 'the sidecars run', async () => {
      const pods = [await ifThere(podOf(at.key, 0)), await ifThere(podOf(at.key, 1))];
      return pods.every((pod) => pod?.spec?.containers.length === 2);
    });
    await settled(at, 'IndependentDatabases');
    const pods = [await podOf(at.key, 0), await podOf(at.key, 1)];

    await apply(at.key, spec({}, { replicas: 2, env: [{ name: 'A', value: '1' }], dbSize: '2Gi' }));
    const growing = await settled(at, 'ClaimsGrowing');
    expect(findCondition(growing.status?.conditions, 'VolumeResizing')).toMatchObject({ status: 'True' });
    expect(findCondition(growing.status?.conditions, 'Ready')).toMatchObject({ status: 'False' });
    expect(findCondition(growing.status?.conditions, 'DatabaseReady')).toMatchObject({ status: 'True' });
    for (const ordinal of [0, 1]) await at.played.growVolume(`data-shop-db-${ordinal}`);
    await settled(at, 'FileSystemResizePending');
    // Claims first: until all are done it is the same StatefulSet.
    expect((await statefulSetOf(at.key)).metadata.uid).toBe(before.metadata.uid);
    await at.played.growFileSystem('data-shop-db-0');
    await at.played.growFileSystem('data-shop-db-1');
    const done = await settled(at, 'IndependentDatabases');
    expect(done.status?.volumes?.map(({ capacity }) => capacity)).toEqual(['2Gi', '2Gi']);

    const after = await statefulSetOf(at.key);
    expect(after.metadata.uid).not.toBe(before.metadata.uid);
    expect(templateSizeOf(after)).toBe('2Gi');
    expect(after.metadata.annotations?.note).toBe('mine');
    expect(imageOf(after, 'sidecar')).toBe('example.com/sidecar');
    for (const [ordinal, pod] of pods.entries()) {
      const now = await podOf(at.key, ordinal);
      expect(now.metadata.uid).toBe(pod.metadata.uid);
      expect(now.status?.startTime).toBe(pod.status?.startTime);
      await eventually('the pod is taken up', async () => isControlledBy(await podOf(at.key, ordinal), after));
    }
    const { items } = await cluster.client.list(ControllerRevision, { namespace: at.key.namespace });
    expect(items.filter(({ metadata }) => metadata.name.endsWith('-recreation'))).toEqual([]);

    // Whose field is whose has not changed: ours still goes when it is not wanted, and the other's stays.
    await apply(at.key, spec({}, { replicas: 3, dbSize: '2Gi' }));
    await settled(at, 'IndependentDatabases');
    const last = await statefulSetOf(at.key);
    expect(last.spec?.template.spec?.containers[0]?.env ?? []).toEqual([]);
    expect(imageOf(last, 'sidecar')).toBe('example.com/sidecar');
    expect(await requestOf(at.key, 2)).toBe('2Gi');
  }, 180_000);

  test('a change of the pods in the same edit waits until the StatefulSet is made anew', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const before = await statefulSetOf(at.key);
    const watch = statesOf(StatefulSet, before);
    await apply(at.key, spec({}, { tag: 'two', dbSize: '2Gi' }));
    await growOnline(at, '2Gi');
    await meanwhile(at, 'the pod is of the new image', async () =>
      (await ifThere(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
    );
    await settled(at);
    const states = await watch.end();
    const images = (uid: (of: string) => boolean) => [
      ...new Set(states.filter(({ metadata }) => uid(metadata.uid)).map((state) => imageOf(state))),
    ];
    expect(images((uid) => uid === before.metadata.uid)).toEqual(['example.com/db:one']);
    expect(images((uid) => uid !== before.metadata.uid)).toEqual(['example.com/db:one', 'example.com/db:two']);
    expect(templateSizeOf(await statefulSetOf(at.key))).toBe('2Gi');
  }, 120_000);

  test('a change of the pods does not wait where a database is not ready, or a volume fails to grow', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const changed = (tag: string) => async () => imageOf(await statefulSetOf(at.key)) === `example.com/db:${tag}`;
    await apply(at.key, spec({}, { tag: 'one', dbSize: '2Gi' }));
    await settled(at, 'ClaimsGrowing');
    await at.played.breakPod('shop-db-0');
    await eventually('it is not ready', async () => (await statefulSetOf(at.key)).status?.availableReplicas === 0);
    await apply(at.key, spec({}, { tag: 'two', dbSize: '2Gi' }));
    await eventually('the image is changed', changed('two'));
    await settled(at, 'ClaimsGrowing');
    await at.played.failToGrow('data-shop-db-0', 'no room left');
    const failing = await settled(at, 'ResizeFailing');
    expect(findCondition(failing.status?.conditions, 'VolumeResizing')?.message).toContain('no room left');
    await apply(at.key, spec({}, { tag: 'three', dbSize: '2Gi' }));
    await eventually('the image is changed again', changed('three'));
  }, 120_000);

  test('a file system that does not grow under its pod has that one pod restarted, after resizeRestartAfter', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2, resizeRestartAfter: '4s' }));
    await settled(at, 'IndependentDatabases');
    const before = [await podOf(at.key, 0), await podOf(at.key, 1)];
    await apply(at.key, spec({}, { replicas: 2, resizeRestartAfter: '4s', dbSize: '2Gi' }));
    await growOnline(at, '2Gi', [0]);
    await eventually('claim 1 asks for 2Gi', async () => (await requestOf(at.key, 1)) === '2Gi');
    await at.played.growVolume('data-shop-db-1');
    const pendingSince = (await claimOf(at.key, 1)).status?.conditions?.find(
      ({ type }) => type === 'FileSystemResizePending',
    )?.lastTransitionTime;
    const restarted = await meanwhile(at, 'pod 1 is restarted', async () => {
      const pod = await ifThere(podOf(at.key, 1));
      return pod !== undefined && pod.metadata.uid !== before[1]?.metadata.uid && pod;
    });
    expect(Date.parse(restarted.metadata.creationTimestamp)).toBeGreaterThanOrEqual(
      Date.parse(pendingSince ?? '') + 4000,
    );
    // Now its volume is mounted anew.
    await at.played.growFileSystem('data-shop-db-1');
    await settled(at, 'IndependentDatabases');
    expect((await podOf(at.key, 0)).metadata.uid).toBe(before[0]?.metadata.uid);
    expect((await podOf(at.key, 1)).metadata.uid).toBe(restarted.metadata.uid);
    expect(templateSizeOf(await statefulSetOf(at.key))).toBe('2Gi');
    const { items } = await cluster.client.list(Event, { namespace: at.key.namespace });
    expect(items.filter(({ reason }) => reason === 'PodRestarted').map(({ note }) => note)).toEqual([
      'pod shop-db-1 restarted: the file system of data-shop-db-1 has not grown under it',
    ]);
  }, 120_000);

  test('a class that cannot grow is a condition that names it, and all else goes on', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { storageClassName: fixed }));
    await settled(at);
    const { uid } = (await statefulSetOf(at.key)).metadata;
    await apply(at.key, spec({}, { storageClassName: fixed, dbSize: '2Gi', tag: 'two' }));
    const store = await settled(at, 'StorageClassCannotGrow');
    const condition = findCondition(store.status?.conditions, 'VolumeResizing');
    expect(condition).toMatchObject({ status: 'False', reason: 'StorageClassCannotGrow' });
    expect(condition?.message).toContain(fixed);
    expect(await requestOf(at.key)).toBe('1Gi');
    await meanwhile(at, 'the new image runs', async () =>
      (await ifThere(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
    );
    const after = await statefulSetOf(at.key);
    expect(after.metadata.uid).toBe(uid);
    expect(templateSizeOf(after)).toBe('1Gi');
  });

  /** Brings a growth to where the StatefulSet is being deleted, and the operator is killed. */
  async function killedBetween(at: World): Promise<{ readonly statefulSet: StatefulSet; readonly pod: Pod }> {
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const statefulSet = await statefulSetOf(at.key);
    await addSidecar(StatefulSet, statefulSet);
    await meanwhile(at, 'the sidecar runs', async () => (await ifThere(podOf(at.key)))?.spec?.containers.length === 2);
    await settled(at);
    // It is in nobody's way but that of the deletion's end.
    const finalizers = ['test.example.com/hold'];
    await merge(StatefulSet, statefulSet, { metadata: { finalizers } });
    const pod = await podOf(at.key);
    await apply(at.key, spec({}, { tag: 'one', dbSize: '2Gi' }));
    await growOnline(at, '2Gi');
    await eventually('it is being deleted, and its pods are let go', async () => {
      const { deletionTimestamp, finalizers: left = [] } = (await statefulSetOf(at.key)).metadata;
      return deletionTimestamp !== undefined && !left.includes('orphan');
    });
    await stopOperator('SIGKILL');
    return { statefulSet, pod };
  }

  const letGo = (key: Key) =>
    merge(StatefulSet, { metadata: { ...key, name: `${key.name}-db` } }, { metadata: { finalizers: null } });

  test('also with the operator killed between the two the pods run on, with what others have added', async () => {
    const at = await world('shop');
    const { statefulSet, pod } = await killedBetween(at);
    await apply(at.key, spec({}, { tag: 'two', dbSize: '2Gi' }));
    const last = await letGo(at.key);
    await eventually('it is gone', async () => (await ifThere(statefulSetOf(at.key))) === undefined);
    const orphan = await podOf(at.key);
    expect(orphan.metadata.uid).toBe(pod.metadata.uid);
    expect(controllerOf(orphan)).toBeUndefined();
    const watch = statesOf(StatefulSet, last);
    operator = await OperatorProcess.start(role.kubeconfig);
    await meanwhile(at, 'the pod is of the new image', async () =>
      (await ifThere(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
    );
    await settled(at);
    const [first] = await watch
      .end()
      .then((states) => states.filter(({ metadata }) => metadata.uid !== statefulSet.metadata.uid));
    if (first === undefined) throw new Error('another StatefulSet');
    // As it was, but for the size; what the BookStore asks for besides came after that.
    expect(imageOf(first, 'database')).toBe('example.com/db:one');
    expect(imageOf(first, 'sidecar')).toBe('example.com/sidecar');
    expect(templateSizeOf(first)).toBe('2Gi');
    expect(imageOf(await statefulSetOf(at.key), 'sidecar')).toBe('example.com/sidecar');
  }, 180_000);

  test('a BookStore that is deleted between the two leaves nothing behind but its claim', async () => {
    const at = await world('shop');
    await killedBetween(at);
    try {
      await cluster.client.delete(BookStore, at.key);
      await letGo(at.key);
      await eventually('its pod is gone', async () => (await ifThere(podOf(at.key))) === undefined, 60_000);
      await eventually(
        'its revisions are gone',
        async () => (await cluster.client.list(ControllerRevision, { namespace: at.key.namespace })).items.length === 0,
        60_000,
      );
      expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
    } finally {
      operator = await OperatorProcess.start(role.kubeconfig);
    }
  }, 180_000);
});

test(
  `${many} BookStores in a namespace converge; then neither a restart nor a resync sends a write`,
  async () => {
    const at = await world('many');
    const keys = Array.from({ length: many }, (_, index) => ({ ...at.key, name: `shop-${index}` }));
    const startedAtMs = performance.now();
    await Promise.all(
      keys.map((key) => apply(key, spec({ serviceName: key.name }, { serviceName: `${key.name}-data` }))),
    );
    const allReady = async () => {
      const { items } = await cluster.client.list(BookStore, { namespace: at.key.namespace });
      return items.every(({ status }) => findCondition(status?.conditions, 'Ready')?.reason === 'AllReady');
    };
    await meanwhile(at, 'all are ready', allReady, timeLimitMs);
    const seconds = (performance.now() - startedAtMs) / 1000;
    process.stdout.write(`${many} BookStores after ${seconds.toFixed(1)} s\n`);
    const before = await writes(at.key);
    await restartAndResync(2);
    expect(await writes(at.key)).toEqual(before);
  },
  4 * timeLimitMs,
);

test("all that was done with just what the chart's role allows", async () => {
  await stopOperator();
  operator = await OperatorProcess.start(role.kubeconfig);
  expect(outputs.join('\n')).not.toMatch(/cannot \w+ resource/);
  expect(outputs.join('\n')).not.toContain('cannot set an ownerRef');
});
