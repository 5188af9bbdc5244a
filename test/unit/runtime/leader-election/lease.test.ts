import { describe, expect, test } from '@jest/globals';
import type { Lease } from '../../../../src/runtime/kinds/index.ts';
import type { HolderContainer } from '../../../../src/runtime/leader-election/index.ts';
import {
  claimed,
  containerOf,
  holderOf,
  isSameClaim,
  newLease,
  released,
} from '../../../../src/runtime/leader-election/lease.ts';

const container = {
  namespace: 'ops',
  podName: 'pod-a',
  podUid: 'uid-a',
  containerName: 'operator',
  containerId: 'containerd://1',
  terminationToken: 'token-a',
} satisfies HolderContainer;

/** As the API server would have stored it, with what others may have put there. */
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
  test('that renews keeps the time of acquisition and the count, and carries what it was made from', () => {
    const renewed = claimed(held, { holderIdentity: 'a', leaseDurationSeconds: 15 });
    expect(renewed.spec).toMatchObject({ acquireTime: held.spec?.acquireTime, leaseTransitions: 3 });
    expect(renewed.spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(renewed.metadata).toMatchObject({ resourceVersion: '7', uid: 'u', labels: { app: 'x' } });
    expect(renewed.metadata.annotations).toEqual({ note: 'kept' });
    expect('managedFields' in renewed.metadata).toBe(false);
  });

  test('that takes over counts, and forgets which container the last holder ran in', () => {
    const published = claimed(held, { holderIdentity: 'a', leaseDurationSeconds: 15, container });
    expect(containerOf(published)).toEqual(container);
    const taken = claimed(published, { holderIdentity: 'b', leaseDurationSeconds: 20 });
    expect(taken.spec).toMatchObject({ holderIdentity: 'b', leaseDurationSeconds: 20, leaseTransitions: 4 });
    expect(taken.spec?.acquireTime).toBe(taken.spec?.renewTime);
    expect(taken.metadata.annotations).toEqual({ note: 'kept' });
  });

  test('takes a Lease that has no spec', () => {
    const taken = claimed(lease(undefined), { holderIdentity: 'b', leaseDurationSeconds: 15 });
    expect(taken.spec).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 });
  });

  test('makes a new Lease', () => {
    const made = newLease({ namespace: 'ops', name: 'lock' }, { holderIdentity: 'a', leaseDurationSeconds: 15 });
    expect(made.spec).toMatchObject({ holderIdentity: 'a', leaseDurationSeconds: 15, leaseTransitions: 0 });
  });
});

test('a released Lease is free, as client-go leaves it', () => {
  const free = released(claimed(held, { holderIdentity: 'a', leaseDurationSeconds: 15, container }));
  expect(holderOf(free)).toBeUndefined();
  expect(free.spec).toMatchObject({ holderIdentity: '', leaseDurationSeconds: 1, leaseTransitions: 3 });
  expect(free.metadata.annotations).toEqual({ note: 'kept' });
});

test("a container counts only if it is the present holder's: a candidate in Go leaves annotations as they are", () => {
  const published = claimed(held, { holderIdentity: 'a', leaseDurationSeconds: 15, container });
  const byGo = { ...published, spec: { ...published.spec, holderIdentity: 'go' } };
  expect(containerOf(byGo)).toBeUndefined();
});

test.each(['no JSON', '7', 'null', '{"holderIdentity":"a"}'])('an annotation of %s says nothing', (text) => {
  const strange = lease(held.spec, { 'leader-election.echoperator.io/holder': text });
  expect(containerOf(strange)).toBeUndefined();
});

test.each([
  ['a renewal', { renewTime: '2026-01-01T00:00:02.000000Z' }, false],
  ['another holder', { holderIdentity: 'b' }, false],
  ['another count', { leaseTransitions: 4 }, false],
  ['nothing', {}, true],
])('%s makes another claim or not', (_, change, isSame) => {
  const changed = { ...held, spec: { ...held.spec, ...change } };
  expect(isSameClaim(held, { ...changed, metadata: { ...held.metadata, resourceVersion: '8' } })).toBe(isSame);
});

test('a Lease deleted and made again is another claim', () => {
  expect(isSameClaim(held, { ...held, metadata: { ...held.metadata, uid: 'v' } })).toBe(false);
});
