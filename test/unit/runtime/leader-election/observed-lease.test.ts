import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import type { Lease } from '../../../../src/runtime/kinds/index.ts';
import { claimed, released } from '../../../../src/runtime/leader-election/lease.ts';
import { ObservedLease } from '../../../../src/runtime/leader-election/observed-lease.ts';

const never = Number.POSITIVE_INFINITY;
let observed: ObservedLease;

beforeEach(() => {
  // Not at 0, so that a time since 0 is not by chance right.
  jest.useFakeTimers({ now: 1_000_000 });
  jest.advanceTimersByTime(5000);
  observed = new ObservedLease('me');
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
  claimed(empty, { holderIdentity, leaseDurationSeconds });

test('before anything is known the Lease is not free', () => {
  expect(observed.freeInMs).toBe(never);
  expect(observed.silentMs).toBe(never);
});

test('no Lease is a free one, to be made', () => {
  observed.sawNone();
  expect(observed.freeInMs).toBe(0);
  expect(observed.lease).toBeUndefined();
});

test("another's expires after its own duration, by the time that passes here", () => {
  observed.saw(heldBy('other', 20));
  expect(observed.freeInMs).toBe(20_000);
  jest.advanceTimersByTime(19_999);
  expect(observed.freeInMs).toBe(1);
  jest.advanceTimersByTime(1);
  expect(observed.freeInMs).toBe(0);
});

test('an old renewTime on the Lease says nothing: another machine wrote it', () => {
  const old = heldBy('other');
  observed.saw({ ...old, spec: { ...old.spec, renewTime: '1999-01-01T00:00:00.000000Z' } });
  expect(observed.freeInMs).toBe(15_000);
});

test('each renewal counts anew; to see the same again, or a label, does not', () => {
  const lease = heldBy('other');
  observed.saw(lease);
  jest.advanceTimersByTime(10_000);
  observed.saw({ ...lease, metadata: { ...lease.metadata, resourceVersion: '2', labels: { a: 'b' } } });
  expect(observed.freeInMs).toBe(5000);
  observed.saw(heldBy('other'));
  expect(observed.freeInMs).toBe(15_000);
});

test('released is free at once', () => {
  observed.saw(released(heldBy('other')));
  expect(observed.freeInMs).toBe(0);
  expect(observed.holder).toBeUndefined();
});

test('a Lease that turns out to be our own is free: a write came through whose answer did not', () => {
  observed.saw(heldBy('me'));
  expect(observed.freeInMs).toBe(0);
});

test('a deleted Lease is not free before what was granted on it has passed', () => {
  observed.saw(heldBy('other'));
  jest.advanceTimersByTime(5000);
  observed.sawNone();
  expect(observed.freeInMs).toBe(10_000);
  jest.advanceTimersByTime(10_000);
  expect(observed.freeInMs).toBe(0);
  expect(observed.lease).toBeUndefined();
});

test('after a conflict it is not free before it was seen again', () => {
  observed.saw(released(heldBy('other')));
  observed.outdated();
  expect(observed.freeInMs).toBe(never);
  observed.saw(released(heldBy('third')));
  expect(observed.freeInMs).toBe(0);
});
