import { findCondition } from '@echoperator/runtime';
import type { V1Pod } from '@kubernetes/client-node';
import type { BookStore } from '../../../src/kinds/book-store/kind.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { cluster, namespace as newNamespace } from './cluster.ts';

/** The BookStores of one namespace at a time. */

export let ns: string;

/**
 * With a customer in it: a busybox without the libraries of others, which resolves names. {@link ask} waits until it
 * runs.
 */
export async function namespace(): Promise<void> {
  ns = await newNamespace();
  const container = {
    name: 'busybox',
    image: 'busybox:1.36',
    imagePullPolicy: 'IfNotPresent',
    command: ['sleep', '3600'],
  };
  const spec = { terminationGracePeriodSeconds: 1, containers: [container] };
  await cluster.apply({ apiVersion: 'v1', kind: 'Pod', metadata: { name: customer, namespace: ns }, spec });
}

export const customer = 'customer';

export const kubectl = (...args: readonly string[]) => cluster.kubectl(['--namespace', ns, ...args]);

/** The tutorial's, but for what is asked for. */
export function bookStore(name: string, app: object = {}, database: object = {}): object {
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
export function ready(name: string): Promise<BookStore> {
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

export const addBook = (store: BookStore, title: string) => ask(store, `?${encodeURIComponent(title)}`);
export const books = (store: BookStore) => ask(store);

export const databasePod = async ({ status }: BookStore): Promise<V1Pod> =>
  cluster.get<V1Pod>(`pod/${status?.statefulSetName}-0`, '--namespace', ns);

/** Of the database's volume, as its container sees it, in KiB. */
export async function sizeInPod(store: BookStore): Promise<number> {
  const output = await kubectl('exec', `${store.status?.statefulSetName}-0`, '--', 'df', '-k', '/data/db');
  return Number(output.trim().split('\n').at(-1)?.split(/\s+/)[1]);
}
