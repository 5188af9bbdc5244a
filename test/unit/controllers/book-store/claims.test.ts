import { expect, test } from '@jest/globals';
import { isForeign, ordinalOf, statefulSetOfClaim } from '../../../../src/controllers/book-store/claims.ts';
import { claim } from './objects.ts';

const owned = (ownerReferences: readonly object[]) => claim('data-shop-db-0', '1Gi', {}, { ownerReferences });
const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'other' };

test.each([
  ['data-shop-db-0', 'default/shop-db', 0],
  ['data-data-1-db-12', 'default/data-1-db', 12],
])('%s is of the StatefulSet %s, and its pod has the number %d', (name, statefulSet, ordinal) => {
  expect(statefulSetOfClaim(claim(name, '1Gi'))).toBe(statefulSet);
  expect(ordinalOf(claim(name, '1Gi'))).toBe(ordinal);
});

test.each(['shop-db-0', 'data-shop-db', 'mydata-shop-db-0', 'data-shop-db-x', 'data-shop-db-00', 'data-shop-db-01'])(
  '%s is of none',
  (name) => {
    expect(statefulSetOfClaim(claim(name, '1Gi'))).toBeUndefined();
  },
);

test('a claim is foreign if somebody else controls it', () => {
  const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'shop-db', uid: 'x', controller: true };
  expect(isForeign(owned([]), 'shop-db')).toBe(false);
  expect(isForeign(owned([other]), 'shop-db')).toBe(false);
  expect(isForeign(owned([set]), 'shop-db')).toBe(false);
  expect(isForeign(owned([{ ...set, name: 'else' }]), 'shop-db')).toBe(true);
  expect(isForeign(owned([{ ...other, controller: true }]), 'shop-db')).toBe(true);
});
