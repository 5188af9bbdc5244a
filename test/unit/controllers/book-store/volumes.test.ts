import { describe, expect, test } from '@jest/globals';
import { growthOf, isForeign, ordinalOf, statefulSetOfClaim } from '../../../../src/controllers/book-store/volumes.ts';
import { keyString } from '../../../../src/runtime/index.ts';
import { claim } from './objects.ts';

const owned = (ownerReferences: readonly object[]) => claim('data-shop-db-0', '1Gi', {}, { ownerReferences });
const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'other' };

test.each([
  ['data-shop-db-0', 'default/shop-db', 0],
  ['data-data-1-db-12', 'default/data-1-db', 12],
])('%s is of the StatefulSet %s, and its pod has the number %d', (name, statefulSet, ordinal) => {
  expect(keyString(statefulSetOfClaim(claim(name, '1Gi')) ?? { name: '' })).toBe(statefulSet);
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

const pendingAt = (lastTransitionTime: string | undefined) => ({
  conditions: [
    { type: 'Resizing', status: 'True' },
    { type: 'FileSystemResizePending', status: 'True', ...(lastTransitionTime && { lastTransitionTime }) },
  ],
});
const none = { unfinished: [], pending: [], errors: [] };

describe('how far claims are', () => {
  test('those that hold as much, or more, are there', () => {
    expect(growthOf([claim('data-a-db-0', '1Gi'), claim('data-a-db-1', '3Gi')], '1024Mi')).toEqual(none);
    expect(growthOf([], '1Gi')).toEqual(none);
  });

  test('what is asked for is not what is there', () => {
    const asking = claim('data-a-db-0', '2Gi', { capacity: { storage: '1Gi' } });
    expect(growthOf([asking], '2Gi')).toEqual({ ...none, unfinished: ['data-a-db-0'] });
  });

  test('one without a volume holds up nobody', () => {
    const waiting = { phase: 'Pending', capacity: undefined };
    expect(growthOf([claim('data-a-db-0', '1Gi', waiting)], '2Gi')).toEqual(none);
  });

  test('one whose file system waits says since when, and for which pod', () => {
    const status = { capacity: { storage: '1Gi' }, ...pendingAt('2026-01-02T03:04:05Z') };
    expect(growthOf([claim('data-a-db-12', '2Gi', status)], '2Gi').pending).toEqual([
      { claim: 'data-a-db-12', ordinal: 12, sinceMs: Date.parse('2026-01-02T03:04:05Z') },
    ]);
    const unknown = { capacity: { storage: '1Gi' }, ...pendingAt(undefined) };
    expect(growthOf([claim('data-a-db-0', '2Gi', unknown)], '2Gi').pending[0]?.sinceMs).toBe(0);
  });

  test('a condition that has stayed although the volume has grown is none', () => {
    expect(growthOf([claim('data-a-db-0', '2Gi', pendingAt('2026-01-02T03:04:05Z'))], '2Gi')).toEqual(none);
  });

  test.each(['ControllerResizeError', 'NodeResizeError'])('%s is told in its own words', (type) => {
    const conditions = [{ type, status: 'True', message: 'no room' }];
    const failing = claim('data-a-db-0', '2Gi', { capacity: { storage: '1Gi' }, conditions });
    expect(growthOf([failing], '2Gi').errors).toEqual(['data-a-db-0: no room']);
  });
});
