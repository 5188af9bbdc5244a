import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import { eventually } from '../../testkit/eventually.ts';
import { addBook, bookStore, books, customer, kubectl, namespace, ns, ready } from './environment/book-stores.ts';
import { cluster, connect, deleteNamespaces } from './environment/cluster.ts';

beforeAll(connect);

afterEach(deleteNamespaces);

describe('a BookStore', () => {
  test('and another one in its namespace have one database each', async () => {
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

  test('that is deleted keeps its data for the next one of its name if reclaimPolicy is Retain', async () => {
    await namespace();
    await cluster.apply(bookStore('kept', {}, { dbSize: '64Mi' }));
    await addBook(await ready('kept'), 'Pedro Páramo');
    await kubectl('delete', 'bookstore', 'kept');
    const workloads = async () =>
      (await cluster.get<{ items: V1Pod[] }>('pods,services,statefulsets,deployments', '--namespace', ns)).items.filter(
        ({ metadata }) => metadata?.name !== customer,
      );
    await eventually('all but its data is gone', async () => (await workloads()).length === 0, 90_000);

    const deleting = bookStore('kept', {}, { dbSize: '64Mi', reclaimPolicy: 'Delete' });
    const claims = async () =>
      (await cluster.get<{ items: unknown[] }>('persistentvolumeclaims', '--namespace', ns)).items;
    await cluster.apply(deleting);
    expect(await books(await ready('kept'))).toContain('Pedro Páramo');
    await kubectl('delete', 'bookstore', 'kept');
    await eventually('all but the data of the first is gone', async () => (await workloads()).length === 0, 90_000);
    expect(await claims()).toHaveLength(1);

    await kubectl('delete', 'persistentvolumeclaims', '--all');
    await cluster.apply(deleting);
    await ready('kept');
    await kubectl('delete', 'bookstore', 'kept');
    await eventually(
      'its data is gone too',
      async () => (await claims()).length === 0 && (await workloads()).length === 0,
      90_000,
    );
  });
});
