import type { Lease } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { buildClaimedLease, buildReleasedLease } from '../../../../packages/runtime/src/leader-election/lease.ts';
import { ObservedLease } from '../../../../packages/runtime/src/leader-election/observed-lease.ts';

const never = Number.POSITIVE_INFINITY;
const descriptionAnnotation = 'example.com/holder';
let observed: ObservedLease;

beforeEach(() => {
  // Not at 0, so that a time since 0 is not right by chance.
  jest.useFakeTimers({ now: 1_000_000 });
  jest.advanceTimersByTime(5000);
  observed = new ObservedLease({ identity: 'me', descriptionAnnotation });
});
afterEach(() => {
  jest.useRealTimers();
});

const empty: Lease = {
  metadata: {
    name: 'lock',
    namespace: 'ops',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '2026-01-01T00:00:00Z',
  },
};
const heldBy = (holderIdentity: string, leaseDurationSeconds = 15): Lease =>
  buildClaimedLease(empty, { holderIdentity, leaseDurationSeconds });

test('a Lease is not free before it is observed', () => {
  expect(observed.msUntilFree).toBe(never);
  expect(observed.msSinceObserved).toBe(never);
});

test('a Lease that does not exist is free', () => {
  observed.observeAbsence();
  expect(observed.msUntilFree).toBe(0);
  expect(observed.lease).toBeUndefined();
});

test('a Lease that was deleted is remembered as it was observed last', () => {
  expect(observed.last).toBeUndefined();
  observed.observe(heldBy('other'));
  observed.observeAbsence();
  expect(observed.lease).toBeUndefined();
  expect(observed.last?.spec).toMatchObject({ holderIdentity: 'other', leaseTransitions: 1 });
});

test('a free Lease says why it is free', () => {
  observed.observeAbsence();
  expect(observed.freedBy).toBe('absence');
  const described = {
    ...empty,
    metadata: { ...empty.metadata, annotations: { [descriptionAnnotation]: 'process 1' } },
  };
  observed.observe({ ...described, spec: heldBy('other').spec ?? {} });
  jest.advanceTimersByTime(15_000);
  expect(observed.freedBy).toBe('expiry');
  observed.markEnded('other', 'process 1');
  expect(observed.freedBy).toBe('crash');
  observed.observe(heldBy('me'));
  expect(observed.freedBy).toBe('ownClaim');
  observed.observe(buildReleasedLease(heldBy('other')));
  expect(observed.freedBy).toBe('release');
});

test("another holder's Lease expires after the duration that it states, by the standby's clock", () => {
  observed.observe(heldBy('other', 20));
  expect(observed.msUntilFree).toBe(20_000);
  jest.advanceTimersByTime(19_999);
  expect(observed.msUntilFree).toBe(1);
  jest.advanceTimersByTime(1);
  expect(observed.msUntilFree).toBe(0);
});

test('a claim without a duration holds for the duration of the standby', () => {
  const { leaseDurationSeconds: _, ...spec } = heldBy('other').spec ?? {};
  const shorter = new ObservedLease({ identity: 'me', leaseDurationSeconds: 7 });
  shorter.observe({ ...empty, spec });
  expect(shorter.msUntilFree).toBe(7000);
  shorter.observe(buildReleasedLease({ ...empty, spec }));
  expect(shorter.msUntilFree).toBe(0);
});

test('an old renewTime does not matter: it comes from the clock of another machine', () => {
  const old = heldBy('other');
  observed.observe({ ...old, spec: { ...old.spec, renewTime: '1999-01-01T00:00:00.000000Z' } });
  expect(observed.msUntilFree).toBe(15_000);
});

test('a renewal starts the duration again; the same version or a new label does not', () => {
  const lease = heldBy('other');
  observed.observe(lease);
  jest.advanceTimersByTime(10_000);
  observed.observe({ ...lease, metadata: { ...lease.metadata, resourceVersion: '2', labels: { a: 'b' } } });
  expect(observed.msUntilFree).toBe(5000);
  observed.observe(heldBy('other'));
  expect(observed.msUntilFree).toBe(15_000);
});

test('a released Lease is free at once', () => {
  observed.observe(buildReleasedLease(heldBy('other')));
  expect(observed.msUntilFree).toBe(0);
  expect(observed.holder).toBeUndefined();
});

test('a Lease with our own identity is free: one of our writes succeeded but its response was lost', () => {
  observed.observe(heldBy('me'));
  expect(observed.msUntilFree).toBe(0);
});

test('a deleted Lease is free when its last claim has expired', () => {
  observed.observe(heldBy('other'));
  jest.advanceTimersByTime(5000);
  observed.observeAbsence();
  expect(observed.msUntilFree).toBe(10_000);
  jest.advanceTimersByTime(10_000);
  expect(observed.msUntilFree).toBe(0);
  expect(observed.lease).toBeUndefined();
});

test('after a Conflict the Lease is not free until it is observed again', () => {
  observed.observe(buildReleasedLease(heldBy('other')));
  observed.markStale();
  expect(observed.msUntilFree).toBe(never);
  observed.observe(buildReleasedLease(heldBy('third')));
  expect(observed.msUntilFree).toBe(0);
});

describe('the Lease of a holder that has ended', () => {
  const describedBy = (holderIdentity: string, description: string | undefined): Lease => {
    jest.advanceTimersByTime(1);
    const annotations = { [descriptionAnnotation]: description };
    return buildClaimedLease(empty, { holderIdentity, leaseDurationSeconds: 15, annotations });
  };

  test('is free, also if an earlier renewal is observed later', () => {
    observed.observe(describedBy('other', 'container 1'));
    observed.markEnded('other', 'container 1');
    expect(observed.msUntilFree).toBe(0);
    observed.observe(describedBy('other', 'container 1'));
    expect(observed.msUntilFree).toBe(0);
  });

  test.each([
    ['another description', 'other', 'container 2'],
    ['no description', 'other', undefined],
    ['the same description and another holder', 'third', 'container 1'],
    ['another holder and no description', 'third', undefined],
  ])('is not free when it has %s', (_, holder, description) => {
    observed.observe(describedBy('other', 'container 1'));
    observed.markEnded('other', 'container 1');
    observed.observe(describedBy(holder, description));
    expect(observed.msUntilFree).toBe(15_000);
  });

  test('is not free if the holder has not described its process', () => {
    observed.observe(describedBy('other', undefined));
    observed.markEnded('other', 'container 1');
    expect(observed.msUntilFree).toBe(15_000);
  });
});
