import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Fence } from '../../../../src/runtime/leader-election/fence.ts';
import type { HolderContainer } from '../../../../src/runtime/leader-election/index.ts';
import { now } from '../../../../src/runtime/leader-election/instant.ts';
import { claimed, type Lease, released } from '../../../../src/runtime/leader-election/lease.ts';
import { ObservedLease } from '../../../../src/runtime/leader-election/observed-lease.ts';

beforeEach(() => {
  jest.useFakeTimers({ now: 1_000_000 });
});
afterEach(() => {
  jest.useRealTimers();
});

test('after a suspension, in which timers stood still, a fence closes within a second though nobody asks to pass', () => {
  const fence = new Fence(10_000);
  fence.renewed(now());
  jest.setSystemTime(Date.now() + 20_000);
  expect(fence.signal.aborted).toBe(false);
  jest.advanceTimersByTime(1000);
  expect(fence.signal.aborted).toBe(true);
});

describe('what a standby knows', () => {
  const empty: Lease = {
    metadata: { name: 'lock', namespace: 'ops', uid: 'u', resourceVersion: '1', creationTimestamp: '' },
  };
  const container: HolderContainer = {
    namespace: 'ops',
    podName: 'operator-0',
    podUid: 'uid-1',
    containerName: 'operator',
    containerId: 'containerd://1',
    terminationToken: 'token-1',
  };
  const heldIn = (where: HolderContainer): Lease => {
    jest.advanceTimersByTime(1);
    return claimed(empty, { holderIdentity: 'other', leaseDurationSeconds: 15, container: where });
  };
  let observed: ObservedLease;
  beforeEach(() => {
    observed = new ObservedLease('me', 7);
  });

  test('a proven end stays proven when the last renewal of the dead is seen after it', () => {
    observed.saw(heldIn(container));
    observed.sawEnd(container);
    expect(observed.freeInMs).toBe(0);
    observed.saw(heldIn(container));
    expect(observed.freeInMs).toBe(0);
  });

  test('the end of one is not the end of another holder, be it in a container with the same ID', () => {
    observed.saw(heldIn(container));
    observed.sawEnd(container);
    for (const changes of [
      { podUid: 'uid-2' },
      { containerName: 'sidecar' },
      { containerId: 'containerd://2' },
      { terminationToken: 'token-2' },
    ]) {
      observed.saw(heldIn({ ...container, ...changes }));
      expect(observed.freeInMs).toBe(15_000);
    }
  });

  test('a holder that says of no container is not taken to have ended with one', () => {
    observed.saw(heldIn(container));
    observed.sawEnd(container);
    observed.saw(claimed(empty, { holderIdentity: 'third', leaseDurationSeconds: 15 }));
    expect(observed.freeInMs).toBe(15_000);
  });

  test('a claim that says no duration holds for as long as our own would', () => {
    const { leaseDurationSeconds: _, ...spec } =
      claimed(empty, { holderIdentity: 'o', leaseDurationSeconds: 1 }).spec ?? {};
    observed.saw({ ...empty, spec });
    expect(observed.freeInMs).toBe(7000);
    observed.saw(released({ ...empty, spec }));
    expect(observed.freeInMs).toBe(0);
  });
});
