import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { V1Pod, V1StatefulSet } from '@kubernetes/client-node';
import type { BookStore } from '../../src/api/index.ts';
import { findCondition } from '../../src/runtime/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { E2eCluster } from '../e2e/environment/cluster.ts';

// Volumes are made, attached and grown.
jest.setTimeout(300_000);

let cluster: E2eCluster;
let ns: string;
const namespaces: string[] = [];

beforeAll(async () => {
  cluster = await E2eCluster.connect();
});

afterEach(async () => {
  for (const name of namespaces.splice(0)) await cluster.deleteNamespace(name);
});

/** With a customer in it: a busybox without the libraries of others, which resolves names. */
async function namespace(): Promise<void> {
  ns = await cluster.namespace();
  namespaces.push(ns);
  const container = {
    name: 'busybox',
    image: 'busybox:1.36',
    imagePullPolicy: 'IfNotPresent',
    command: ['sleep', '3600'],
  };
  const spec = { terminationGracePeriodSeconds: 1, containers: [container] };
  await cluster.apply({ apiVersion: 'v1', kind: 'Pod', metadata: { name: customer, namespace: ns }, spec });
  await kubectl('wait', '--for=condition=Ready', `pod/${customer}`, '--timeout=90s');
}

const customer = 'customer';

const kubectl = (...args: readonly string[]) => cluster.kubectl(['--namespace', ns, ...args]);

/** The tutorial's, but for what is asked for. */
function bookStore(name: string, app: object = {}, database: object = {}): object {
  return {
    apiVersion: 'blog.velotio.com/v1alpha1',
    kind: 'BookStore',
    metadata: { name, namespace: ns },
    spec: {
      bookApp: {
        repository: 'akash125/pyapp',
        tag: 'latest',
        imagePullPolicy: 'IfNotPresent',
        replicas: 1,
        port: 80,
        targetPort: 3000,
        serviceType: 'LoadBalancer',
        ...app,
      },
      bookDB: {
        repository: 'mongo',
        tag: 'latest',
        imagePullPolicy: 'IfNotPresent',
        replicas: 1,
        port: 27017,
        dbSize: '2Gi',
        ...database,
      },
    },
  };
}

const stored = (name: string) => cluster.get<BookStore>(`bookstore/${name}`, '--namespace', ns);

/** Waits until the BookStore is ready, for its present generation. */
function ready(name: string): Promise<BookStore> {
  return eventually(
    `${name} is ready`,
    async () => {
      const found = await stored(name);
      const condition = findCondition(found.status?.conditions, 'Ready');
      return condition?.status === 'True' && condition.observedGeneration === found.metadata.generation && found;
    },
    120_000,
  );
}

/** Asks the app, by its Service. Debian's busybox ends by a fault where wget is given a time-out of its own. */
function ask(store: BookStore, query = ''): Promise<string> {
  const url = `http://${store.status?.appServiceName}/cgi-bin/books${query}`;
  return eventually(`the app of ${store.metadata.name} answers`, () =>
    kubectl('exec', customer, '--', 'timeout', '5', 'wget', '-q', '-O', '-', url),
  );
}

const addBook = (store: BookStore, title: string) => ask(store, `?${encodeURIComponent(title)}`);
const books = (store: BookStore) => ask(store);

const databasePod = async ({ status }: BookStore): Promise<V1Pod> =>
  cluster.get<V1Pod>(`pod/${status?.statefulSetName}-0`, '--namespace', ns);

/** Of the database's volume, as its container sees it, in KiB. */
async function sizeInPod(store: BookStore): Promise<number> {
  const output = await kubectl('exec', `${store.status?.statefulSetName}-0`, '--', 'df', '-k', '/data/db');
  return Number(output.trim().split('\n').at(-1)?.split(/\s+/)[1]);
}

describe('a BookStore', () => {
  test("of the tutorial's manifest sells books, and has them still when its database's pod was deleted", async () => {
    await namespace();
    await cluster.apply(bookStore('example-bookstore'));
    const store = await ready('example-bookstore');
    await addBook(store, 'Don Quijote');
    const { metadata } = await databasePod(store);
    await kubectl('delete', 'pod', metadata?.name ?? '');
    await eventually('the database has another pod', async () => {
      return (await databasePod(store)).metadata?.uid !== metadata?.uid;
    });
    await ready('example-bookstore');
    expect(await books(store)).toContain('Don Quijote');
  });

  test('whose dbSize grows has the space in the pod that it had, with its data', async () => {
    await namespace();
    await cluster.apply(bookStore('growing', {}, { dbSize: '1Gi' }));
    const store = await ready('growing');
    await addBook(store, 'Rayuela');
    const before = await databasePod(store);
    const mib = 1024;
    expect(await sizeInPod(store)).toBeLessThanOrEqual(1024 * mib);
    await cluster.apply(bookStore('growing', {}, { dbSize: '2Gi' }));
    await eventually('the pod sees 2Gi', async () => (await sizeInPod(store)) > 1800 * mib, 120_000);
    const grown = await ready('growing');
    expect(grown.status?.volumes?.map(({ capacity }) => capacity)).toEqual(['2Gi']);
    expect(await books(store)).toContain('Rayuela');
    // Later replicas get the new size, and those that there are were not restarted for it.
    const set = await cluster.get<V1StatefulSet>(`statefulset/${store.status?.statefulSetName}`, '--namespace', ns);
    expect(set.spec?.volumeClaimTemplates?.[0]?.spec?.resources?.requests?.storage).toBe('2Gi');
    const after = await databasePod(store);
    expect(after.metadata?.uid).toBe(before.metadata?.uid);
    expect(after.status?.containerStatuses?.[0]?.containerID).toBe(before.status?.containerStatuses?.[0]?.containerID);
  });

  test('and another in its namespace have a database each', async () => {
    await namespace();
    await cluster.apply(bookStore('madrid', { serviceType: 'ClusterIP' }, { dbSize: '64Mi' }));
    const second = {
      app: { serviceType: 'ClusterIP', serviceName: 'lisboa', env: [{ name: 'DB_HOST', value: 'lisboa-db' }] },
      database: { serviceName: 'lisboa-db', dbSize: '64Mi' },
    };
    await cluster.apply(bookStore('lisboa', second.app, second.database));
    const [madrid, lisboa] = await Promise.all([ready('madrid'), ready('lisboa')]);
    await addBook(madrid, 'La colmena');
    await addBook(lisboa, 'Os Maias');
    expect((await books(madrid)).trim().split('\n')).toEqual(['La colmena']);
    expect((await books(lisboa)).trim().split('\n')).toEqual(['Os Maias']);
  });

  test('that is deleted keeps its data for the next of its name, or not, as it was told', async () => {
    await namespace();
    await cluster.apply(bookStore('kept', {}, { dbSize: '64Mi' }));
    await addBook(await ready('kept'), 'Pedro Páramo');
    await kubectl('delete', 'bookstore', 'kept');
    const workloads = async () =>
      (await cluster.get<{ items: V1Pod[] }>('pods,services,statefulsets,deployments', '--namespace', ns)).items.filter(
        ({ metadata }) => metadata?.name !== customer,
      );
    await eventually('all but its data is gone', async () => (await workloads()).length === 0, 90_000);

    await cluster.apply(bookStore('kept', {}, { dbSize: '64Mi', reclaimPolicy: 'Delete' }));
    expect(await books(await ready('kept'))).toContain('Pedro Páramo');
    await kubectl('delete', 'bookstore', 'kept');
    await eventually(
      'its data is gone too',
      async () => {
        const claims = await cluster.get<{ items: unknown[] }>('persistentvolumeclaims', '--namespace', ns);
        return claims.items.length === 0 && (await workloads()).length === 0;
      },
      90_000,
    );
  });
});
