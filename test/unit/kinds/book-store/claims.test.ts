import { keyString } from '@echoperator/runtime';
import { describe, expect, test } from '@jest/globals';
import {
  growthOf,
  isForeign,
  ordinalOf,
  podNameOf,
  statefulSetOfClaim,
} from '../../../../src/kinds/book-store/claims.ts';
import { claim, pendingAt } from './objects.ts';

const owned = (ownerReferences: readonly object[]) => claim('data-shop-db-0', '1Gi', {}, { ownerReferences });
const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'other' };

test.each([
  ['data-shop-db-0', 'default/shop-db', 0],
  ['data-data-1-db-12', 'default/data-1-db', 12],
])('%s is of the StatefulSet %s, and its pod has the number %d', (name, statefulSet, ordinal) => {
  expect(keyString(statefulSetOfClaim(claim(name, '1Gi')) ?? { name: '' })).toBe(statefulSet);
  expect(ordinalOf(claim(name, '1Gi'))).toBe(ordinal);
  expect(podNameOf(claim(name, '1Gi'))).toBe(`${statefulSet.replace('default/', '')}-${ordinal}`);
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

describe('the growth of a claim', () => {
  const since = '2026-01-02T03:04:05Z';
  const growing = { claimName: 'data-a-db-12', podName: 'a-db-12', capacity: '1Gi', request: '2Gi' };

  /** The growth from 1Gi to 2Gi of a claim with these conditions. */
  const growthWith = (conditions: readonly object[], resizeStatus?: string) => {
    const allocatedResourceStatuses = resizeStatus === undefined ? {} : { storage: resizeStatus };
    const status = { capacity: { storage: '1Gi' }, conditions, allocatedResourceStatuses };
    return growthOf(claim('data-a-db-12', '2Gi', status), '2Gi');
  };
  const failed = (type: string, message: string) => ({ type, status: 'True', message });

  test.each<readonly [string, string, string, object]>([
    ['has enough capacity', '1Gi', '1024Mi', {}],
    ['has more capacity', '3Gi', '1024Mi', {}],
    ['has no volume', '1Gi', '2Gi', { phase: 'Pending', capacity: undefined }],
    ['has lost its volume', '1Gi', '1Gi', { phase: 'Lost', capacity: undefined, ...pendingAt(since) }],
    ['has the size that it requests, although dbSize is larger', '2Gi', '3Gi', pendingAt(since)],
    ['has grown and has a stale condition', '2Gi', '2Gi', pendingAt(since)],
  ])('is undefined if it %s', (_, storage, size, status) => {
    expect(growthOf(claim('data-a-db-0', storage, status), size)).toBeUndefined();
  });

  test('waits for the driver: a request does not count as capacity', () => {
    expect(growthWith([])).toEqual({ ...growing, state: 'driver' });
  });

  test('waits for the kubelet, and has the time since when', () => {
    const sinceMs = Date.parse(since);
    expect(growthWith(pendingAt(since).conditions)).toEqual({ ...growing, state: 'fileSystem', sinceMs });
    expect(growthWith(pendingAt(undefined).conditions)).toEqual({ ...growing, state: 'fileSystem', sinceMs: 0 });
  });

  test('waits for no kubelet on a node that cannot grow the file system, also without a condition that says so', () => {
    const { conditions } = pendingAt(since);
    const infeasible = { ...growing, state: 'nodeInfeasible' };
    const nodeError = failed('NodeResizeError', 'no');
    expect(growthWith([...conditions, nodeError], 'NodeResizeInfeasible')).toEqual({
      ...infeasible,
      error: 'NodeResizeError, NodeResizeInfeasible: no',
    });
    expect(growthWith(conditions, 'NodeResizeInfeasible')).toEqual({ ...infeasible, error: 'NodeResizeInfeasible' });
    // A driver that grows file systems only at mount reports an error too.
    expect(growthWith([...conditions, nodeError], 'NodeResizePending')).toMatchObject({
      state: 'fileSystem',
      error: 'NodeResizeError, NodeResizePending: no',
    });
  });

  test('has no error of external-resizer once its part has succeeded and the kubelet has its turn', () => {
    const conditions = [failed('ControllerResizeError', 'no room'), ...pendingAt(since).conditions];
    expect(growthWith(conditions, 'NodeResizePending')).not.toHaveProperty('error');
    expect(growthWith(conditions, 'NodeResizeInProgress')).not.toHaveProperty('error');
    expect(growthWith(conditions, 'ControllerResizeInProgress')?.error).toBe(
      'ControllerResizeError, ControllerResizeInProgress: no room',
    );
    const both = [...conditions, failed('NodeResizeError', 'no such device')];
    expect(growthWith(both, 'NodeResizeInProgress')?.error).toBe(
      'NodeResizeError, NodeResizeInProgress: no such device',
    );
  });

  test.each(['ControllerResizeError', 'NodeResizeError'])('quotes the message of %s', (type) => {
    expect(growthWith([failed(type, 'no room')])).toEqual({ ...growing, state: 'driver', error: `${type}: no room` });
    expect(growthWith([{ type, status: 'True' }])?.error).toBe(type);
  });
});
