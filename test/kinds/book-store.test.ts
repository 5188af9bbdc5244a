import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import {
  addBook,
  bookStore,
  books,
  databasePod,
  kubectl,
  namespace,
  ready,
  sizeInPod,
} from './environment/book-stores.ts';
import { cluster, connect, deleteNamespaces } from './environment/cluster.ts';

beforeAll(connect);

afterEach(deleteNamespaces);

describe('a BookStore', () => {
  test("from the tutorial's manifest keeps its data when the pod of its database is deleted", async () => {
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

  test('whose dbSize grows has the new space in the same pod, with its data', async () => {
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
    // The pod was not restarted for it.
    const after = await databasePod(store);
    expect(after.metadata?.uid).toBe(before.metadata?.uid);
    expect(after.status?.containerStatuses?.[0]?.containerID).toBe(before.status?.containerStatuses?.[0]?.containerID);
  });
});
