import { describe, expect, test } from '@jest/globals';
import {
  isForeign,
  ordinalOf,
  resizeProgressOf,
  statefulSetOfClaim,
} from '../../../../src/controllers/book-store/claims.ts';
import { keyString } from '../../../../src/runtime/index.ts';
import { claim, pendingAt } from './objects.ts';

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

test('a claim is foreign if another controller owns it', () => {
  const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'shop-db', uid: 'x', controller: true };
  expect(isForeign(owned([]))).toBe(false);
  expect(isForeign(owned([other]))).toBe(false);
  expect(isForeign(owned([set]))).toBe(false);
  expect(isForeign(owned([{ ...set, name: 'else' }]))).toBe(true);
  expect(isForeign(owned([{ ...other, controller: true }]))).toBe(true);
  expect(isForeign(owned([{ ...set, apiVersion: 'apps/v1beta2' }]))).toBe(false);
  expect(isForeign(owned([{ ...set, apiVersion: 'apps.kruise.io/v1beta1' }]))).toBe(true);
});

const none = { growing: [], fileSystems: [], failures: [] };

describe('the progress of claims', () => {
  test('claims with enough capacity are finished', () => {
    expect(resizeProgressOf([claim('data-a-db-0', '1Gi'), claim('data-a-db-1', '3Gi')], '1024Mi')).toEqual(none);
    expect(resizeProgressOf([], '1Gi')).toEqual(none);
  });

  test('a request does not count as capacity', () => {
    const asking = claim('data-a-db-0', '2Gi', { capacity: { storage: '1Gi' } });
    expect(resizeProgressOf([asking], '2Gi')).toEqual({
      ...none,
      growing: [{ claim: 'data-a-db-0', capacity: '1Gi', request: '2Gi' }],
    });
  });

  test('a claim without a volume does not count', () => {
    const waiting = { phase: 'Pending', capacity: undefined };
    expect(resizeProgressOf([claim('data-a-db-0', '1Gi', waiting)], '2Gi')).toEqual(none);
  });

  test('a claim that has lost its volume does not grow', () => {
    const status = { phase: 'Lost', capacity: undefined, ...pendingAt('2026-01-02T03:04:05Z') };
    expect(resizeProgressOf([claim('data-a-db-0', '1Gi', status)], '1Gi')).toEqual(none);
  });

  test('a volume of the size that its claim requests does not grow, although dbSize is larger', () => {
    expect(resizeProgressOf([claim('data-a-db-0', '2Gi', pendingAt('2026-01-02T03:04:05Z'))], '3Gi')).toEqual(none);
  });

  test('a pending file system has its start time and its pod', () => {
    const status = { capacity: { storage: '1Gi' }, ...pendingAt('2026-01-02T03:04:05Z') };
    expect(resizeProgressOf([claim('data-a-db-12', '2Gi', status)], '2Gi').fileSystems).toEqual([
      {
        claim: 'data-a-db-12',
        capacity: '1Gi',
        request: '2Gi',
        ordinal: 12,
        sinceMs: Date.parse('2026-01-02T03:04:05Z'),
      },
    ]);
    const unknown = { capacity: { storage: '1Gi' }, ...pendingAt(undefined) };
    expect(resizeProgressOf([claim('data-a-db-0', '2Gi', unknown)], '2Gi').fileSystems[0]?.sinceMs).toBe(0);
  });

  test('a stale condition of a volume that has grown is ignored', () => {
    expect(resizeProgressOf([claim('data-a-db-0', '2Gi', pendingAt('2026-01-02T03:04:05Z'))], '2Gi')).toEqual(none);
  });

  test('a node that cannot grow the file system at all is not waited for', () => {
    const conditions = [...pendingAt(undefined).conditions, { type: 'NodeResizeError', status: 'True', message: 'no' }];
    const progressWith = (allocatedResourceStatuses: object) => {
      const status = { capacity: { storage: '1Gi' }, conditions, allocatedResourceStatuses };
      return resizeProgressOf([claim('data-a-db-0', '2Gi', status)], '2Gi');
    };
    expect(progressWith({ storage: 'NodeResizeInfeasible' })).toMatchObject({
      fileSystems: [],
      failures: [{ message: 'no' }],
    });
    // A driver that grows file systems only at mount reports an error too.
    expect(progressWith({ storage: 'NodeResizePending' }).fileSystems).toHaveLength(1);
  });

  test('an error of external-resizer does not count once its part has succeeded and the kubelet has its turn', () => {
    const error = { type: 'ControllerResizeError', status: 'True', message: 'no room' };
    const conditions = [error, ...pendingAt('2026-01-02T03:04:05Z').conditions];
    const failuresWith = (storage: string, more: readonly object[] = []) => {
      const status = { capacity: { storage: '1Gi' }, conditions: [...conditions, ...more] };
      return resizeProgressOf(
        [claim('data-a-db-0', '2Gi', { ...status, allocatedResourceStatuses: { storage } })],
        '2Gi',
      ).failures.map(({ message }) => message);
    };
    expect(failuresWith('NodeResizePending')).toEqual([]);
    expect(failuresWith('NodeResizeInProgress')).toEqual([]);
    expect(failuresWith('ControllerResizeInProgress')).toEqual(['no room']);
    const nodeError = { type: 'NodeResizeError', status: 'True', message: 'no such device' };
    expect(failuresWith('NodeResizeInProgress', [nodeError])).toEqual(['no such device']);
  });

  test.each(['ControllerResizeError', 'NodeResizeError'])('the message of %s is quoted', (type) => {
    const conditions = [{ type, status: 'True', message: 'no room' }];
    const failing = claim('data-a-db-0', '2Gi', { capacity: { storage: '1Gi' }, conditions });
    expect(resizeProgressOf([failing], '2Gi').failures).toEqual([
      { claim: 'data-a-db-0', capacity: '1Gi', request: '2Gi', message: 'no room' },
    ]);
  });
});
