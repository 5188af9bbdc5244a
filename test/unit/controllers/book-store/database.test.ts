import { describe, expect, test } from '@jest/globals';
import type { BookStore } from '../../../../src/api/index.ts';
import { statefulSetOf } from '../../../../src/controllers/book-store/database.ts';
import { settingsOf } from '../../../../src/controllers/book-store/desired.ts';
import type { StatefulSet } from '../../../../src/runtime/kinds/index.ts';
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

  test('of an existing StatefulSet is repeated unchanged, because it is immutable', () => {
    const stored = [{ metadata: { name: 'data', labels: { team: 'a' } }, spec: { volumeMode: 'Block' } }];
    const present = { spec: { volumeClaimTemplates: stored } } as unknown as StatefulSet;
    expect(templatesOf(bookStore({ bookDB: { dbSize: '3Gi' } }), present)).toEqual(stored);
  });
});

describe('the StatefulSet', () => {
  test('keeps its serviceName, because it is immutable', () => {
    const store = bookStore({ bookDB: { serviceName: 'shop-db' } });
    const present = { spec: { serviceName: 'mongodb-service' } } as unknown as StatefulSet;
    expect(statefulSetOf(store, settingsOf(store), undefined).spec?.serviceName).toBe('shop-db');
    expect(statefulSetOf(store, settingsOf(store), present).spec?.serviceName).toBe('mongodb-service');
  });
});
