import { describe, expect, test } from '@jest/globals';
import { BookStore } from '../../../../src/api/index.ts';
import {
  type DatabaseOptions,
  reconcileDatabase,
  statefulSetOf,
} from '../../../../src/controllers/book-store/database.ts';
import { settingsOf } from '../../../../src/controllers/book-store/desired.ts';
import { ApiError } from '../../../../src/runtime/client/index.ts';
import { controllerReference, type Kind } from '../../../../src/runtime/index.ts';
import { StatefulSet } from '../../../../src/runtime/kinds/index.ts';
import { bookStoreDefaults } from '../../../../testkit/pod-settings.ts';
import { bookStore, claim } from './objects.ts';

describe('the claim template', () => {
  const templatesOf = (store: BookStore, present?: StatefulSet) =>
    statefulSetOf(store, settingsOf(store), present, bookStoreDefaults).spec?.volumeClaimTemplates;

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
    expect(statefulSetOf(store, settingsOf(store), undefined, bookStoreDefaults).spec?.serviceName).toBe('shop-db');
    expect(statefulSetOf(store, settingsOf(store), present, bookStoreDefaults).spec?.serviceName).toBe(
      'mongodb-service',
    );
  });
});

test('a refused claim is reported also if the API server refuses the StatefulSet', async () => {
  const store = bookStore({ bookDB: { dbSize: '2Gi' } });
  const present = {
    metadata: { name: 'shop-db', ownerReferences: [controllerReference(BookStore, store)] },
  } as unknown as StatefulSet;
  const refuse = (message: string) => Promise.reject(new ApiError('PATCH /x', 403, { reason: 'Forbidden', message }));
  const { database, volume } = await reconcileDatabase(store, settingsOf(store), {
    client: { patch: () => refuse('exceeded quota') },
    statefulSets: { get: () => present },
    podDefaults: bookStoreDefaults,
    applier: {
      apply: async (kind: Kind) => (kind === StatefulSet ? refuse('denied by policy') : { type: 'unchanged' }),
    },
    claims: [claim('data-shop-db-0', '1Gi')],
  } as unknown as DatabaseOptions);
  expect(database).toEqual({ reason: 'Refused', message: 'denied by policy' });
  expect(volume).toEqual({ reason: 'ResizeRefused', message: 'exceeded quota' });
});
