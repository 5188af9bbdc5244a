import type { Lease } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import {
  buildClaimedLease,
  buildNewLease,
  buildReleasedLease,
  holderOf,
  isSameClaim,
} from '../../../../packages/runtime/src/leader-election/lease.ts';

/** As the API server stores it, with a label and managedFields of other clients. */
const lease = (spec: Lease['spec'], annotations: Readonly<Record<string, string>> = {}): Lease => ({
  metadata: {
    name: 'lock',
    namespace: 'ops',
    uid: 'u',
    resourceVersion: '7',
    creationTimestamp: '2026-01-01T00:00:00Z',
    labels: { app: 'x' },
    annotations,
    ...{ managedFields: [{ manager: 'somebody' }] },
  },
  ...(spec !== undefined && { spec }),
});

const held = lease(
  {
    holderIdentity: 'a',
    leaseDurationSeconds: 15,
    acquireTime: '2026-01-01T00:00:00.000000Z',
    renewTime: '2026-01-01T00:00:01.000000Z',
    leaseTransitions: 3,
  },
  { note: 'kept' },
);

describe('a claim', () => {
  test('that renews keeps acquireTime and leaseTransitions, and carries uid and resourceVersion', () => {
    const renewed = buildClaimedLease(held, { holderIdentity: 'a', leaseDurationSeconds: 15 });
    expect(renewed.spec).toMatchObject({ acquireTime: held.spec?.acquireTime, leaseTransitions: 3 });
    expect(renewed.spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(renewed.metadata).toMatchObject({ resourceVersion: '7', uid: 'u', labels: { app: 'x' } });
    expect(renewed.metadata.annotations).toEqual({ note: 'kept' });
    expect('managedFields' in renewed.metadata).toBe(false);
  });

  test('that takes over counts the transition', () => {
    const taken = buildClaimedLease(held, { holderIdentity: 'b', leaseDurationSeconds: 20 });
    expect(taken.spec).toMatchObject({ holderIdentity: 'b', leaseDurationSeconds: 20, leaseTransitions: 4 });
    expect(taken.spec?.acquireTime).toBe(taken.spec?.renewTime);
  });

  test('sets and removes its own annotations only', () => {
    const claim = { holderIdentity: 'a', leaseDurationSeconds: 15 };
    const described = buildClaimedLease(held, { ...claim, annotations: { 'x/holder': 'pod-a' } });
    expect(described.metadata.annotations).toEqual({ note: 'kept', 'x/holder': 'pod-a' });
    const taken = buildClaimedLease(described, { ...claim, annotations: { 'x/holder': undefined } });
    expect(taken.metadata.annotations).toEqual({ note: 'kept' });
  });

  test('takes a Lease without a spec', () => {
    const taken = buildClaimedLease(lease(undefined), { holderIdentity: 'b', leaseDurationSeconds: 15 });
    expect(taken.spec).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 });
  });

  test('creates a Lease', () => {
    const created = buildNewLease(
      { namespace: 'ops', name: 'lock' },
      { holderIdentity: 'a', leaseDurationSeconds: 15 },
    );
    expect(created.spec).toMatchObject({ holderIdentity: 'a', leaseDurationSeconds: 15, leaseTransitions: 0 });
  });

  test.each([
    ['its holder', 'a', 3],
    ['another candidate', 'b', 4],
  ])(
    'creates a deleted Lease again for %s, and continues its count of transitions',
    (_, holderIdentity, transitions) => {
      const key = { namespace: 'ops', name: 'lock' };
      const created = buildNewLease(key, { holderIdentity, leaseDurationSeconds: 15 }, held);
      expect(created.metadata).toEqual({ ...key, annotations: {} });
      expect(created.spec).toMatchObject({ holderIdentity, leaseTransitions: transitions });
    },
  );
});

test("a released Lease has no holder, client-go's duration, and not the annotations to remove", () => {
  const annotations = { 'x/holder': 'pod-a' };
  const claimed = buildClaimedLease(held, { holderIdentity: 'a', leaseDurationSeconds: 15, annotations });
  const released = buildReleasedLease(claimed, { 'x/holder': undefined });
  expect(holderOf(released)).toBeUndefined();
  expect(released.spec).toMatchObject({ holderIdentity: '', leaseDurationSeconds: 1, leaseTransitions: 3 });
  expect(released.metadata.annotations).toEqual({ note: 'kept' });
});

test.each([
  ['a renewal', { renewTime: '2026-01-01T00:00:02.000000Z' }, false],
  ['another holder', { holderIdentity: 'b' }, false],
  ['another count of transitions', { leaseTransitions: 4 }, false],
  ['only another resourceVersion', {}, true],
])('isSameClaim of a version with %s (%j) is %s', (_, change, isSame) => {
  const changed = { ...held, spec: { ...held.spec, ...change } };
  expect(isSameClaim(held, { ...changed, metadata: { ...held.metadata, resourceVersion: '8' } })).toBe(isSame);
});

test('a Lease that was deleted and created again has another claim', () => {
  expect(isSameClaim(held, { ...held, metadata: { ...held.metadata, uid: 'v' } })).toBe(false);
});
