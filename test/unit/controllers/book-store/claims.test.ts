import { describe, expect, test } from '@jest/globals';
import { isForeign, ordinalOf, ownersFor, statefulSetOfClaim } from '../../../../src/controllers/book-store/claims.ts';
import { settingsOf } from '../../../../src/controllers/book-store/settings.ts';
import { bookStore, claim } from './objects.ts';

const owned = (ownerReferences: readonly object[]) => claim('data-shop-db-0', '1Gi', {}, { ownerReferences });
const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'other' };
const ours = { apiVersion: 'blog.velotio.com/v1alpha1', kind: 'BookStore', name: 'shop', uid: 'uid-of-shop' };

test.each([
  ['data-shop-db-0', 'default/shop-db', 0],
  ['data-data-1-db-12', 'default/data-1-db', 12],
])('%s is of the StatefulSet %s, and its pod has the number %d', (name, statefulSet, ordinal) => {
  expect(statefulSetOfClaim(claim(name, '1Gi'))).toBe(statefulSet);
  expect(ordinalOf(claim(name, '1Gi'))).toBe(ordinal);
});

test.each(['shop-db-0', 'data-shop-db', 'mydata-shop-db-0', 'data-shop-db-x'])('%s is of none', (name) => {
  expect(statefulSetOfClaim(claim(name, '1Gi'))).toBeUndefined();
});

describe('the owners of a claim', () => {
  const withPolicy = (reclaimPolicy: string, ownerReferences: readonly object[]) => {
    const store = bookStore({ bookDB: { reclaimPolicy } });
    return ownersFor(store, settingsOf(store).database, owned(ownerReferences));
  };

  test('are left alone where they are right', () => {
    expect(withPolicy('Retain', [other])).toBeUndefined();
    expect(withPolicy('Delete', [other, ours])).toBeUndefined();
  });

  test('get the BookStore, which is no controller and blocks nothing, or lose it; others stay', () => {
    expect(withPolicy('Delete', [other])).toEqual([other, ours]);
    expect(withPolicy('Retain', [ours, other])).toEqual([other]);
  });

  test('without a word on it the data is retained', () => {
    const store = bookStore();
    expect(ownersFor(store, settingsOf(store).database, owned([]))).toBeUndefined();
  });
});

test('a claim is foreign if somebody else controls it', () => {
  const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'shop-db', uid: 'x', controller: true };
  expect(isForeign(owned([]), 'shop-db')).toBe(false);
  expect(isForeign(owned([other]), 'shop-db')).toBe(false);
  expect(isForeign(owned([set]), 'shop-db')).toBe(false);
  expect(isForeign(owned([{ ...set, name: 'else' }]), 'shop-db')).toBe(true);
  expect(isForeign(owned([{ ...other, controller: true }]), 'shop-db')).toBe(true);
});
