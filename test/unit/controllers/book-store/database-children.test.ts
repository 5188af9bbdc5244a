import { describe, expect, test } from '@jest/globals';
import type { BookStore } from '../../../../src/api/index.ts';
import { statefulSetOf } from '../../../../src/controllers/book-store/database-children.ts';
import { claimedNames, deploymentKey, statefulSetKey } from '../../../../src/controllers/book-store/names.ts';
import { settingsOf } from '../../../../src/controllers/book-store/settings.ts';
import type { StatefulSet } from '../../../../src/controllers/built-in-kinds.ts';
import { bookStore } from './objects.ts';

describe('the claim template', () => {
  const templatesOf = (store: BookStore, present?: StatefulSet) =>
    statefulSetOf(store, settingsOf(store), present).spec?.volumeClaimTemplates;

  test('has the size, the class and the uid of the BookStore', () => {
    expect(templatesOf(bookStore({ bookDB: { storageClassName: 'slow' } }))).toMatchObject([
      {
        metadata: { name: 'data', labels: { 'blog.velotio.com/book-store-uid': 'uid-of-shop' } },
        spec: { storageClassName: 'slow', resources: { requests: { storage: '1Gi' } } },
      },
    ]);
  });

  test('of a StatefulSet that exists is repeated as it is, for it cannot be changed', () => {
    const stored = [{ metadata: { name: 'data', labels: { team: 'a' } }, spec: { volumeMode: 'Block' } }];
    const present = { spec: { volumeClaimTemplates: stored } } as unknown as StatefulSet;
    expect(templatesOf(bookStore({ bookDB: { dbSize: '3Gi' } }), present)).toEqual(stored);
  });
});

describe('names', () => {
  test('are the BookStore’s own with a word behind', () => {
    expect([deploymentKey(bookStore()).name, statefulSetKey(bookStore()).name]).toEqual(['shop-app', 'shop-db']);
  });

  test.each(['x'.repeat(253), `a.${'b'.repeat(60)}`, 'a.b', 'x'.repeat(50)])('of %s hold', (name) => {
    const store = bookStore({}, name);
    for (const [key, length] of [[deploymentKey(store), 63] as const, [statefulSetKey(store), 52] as const]) {
      expect(key.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
      expect(key.name.length).toBeLessThanOrEqual(length);
    }
  });

  test('with a dot and with a dash are two', () => {
    expect(statefulSetKey(bookStore({}, 'a.b')).name).not.toBe(statefulSetKey(bookStore({}, 'a-b')).name);
  });

  test('that are claimed are all that a BookStore makes', () => {
    expect(claimedNames(bookStore({ bookApp: { serviceName: 'web' } }))).toEqual([
      'deployments/default/shop-app',
      'statefulsets/default/shop-db',
      'services/default/web',
      'services/default/mongodb-service',
    ]);
  });
});
