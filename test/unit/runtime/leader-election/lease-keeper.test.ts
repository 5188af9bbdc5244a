import { setImmediate } from 'node:timers/promises';
import type { KubeObject } from '@echoperator/runtime';
import type { Lease } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Fence } from '../../../../packages/runtime/src/leader-election/fence.ts';
import { LeaseKeeper } from '../../../../packages/runtime/src/leader-election/lease-keeper.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { electionLease, heldBy, slowTimings } from '../../environment/election.ts';

const descriptionAnnotation = 'example.com/holder';
let fence: Fence;
beforeEach(() => {
  fence = new Fence(60_000);
});
afterEach(() => {
  jest.restoreAllMocks();
  fence.close(new Error('the test is over'));
});

/** A server that stores each write unchanged. */
class StoredLease {
  #lease = {
    ...heldBy('other', '1'),
    metadata: {
      ...heldBy('other', '1').metadata,
      annotations: { note: 'kept', [descriptionAnnotation]: 'of another holder' },
    },
  } as unknown;

  get annotations(): Readonly<Record<string, string>> | undefined {
    return (this.#lease as KubeObject).metadata.annotations;
  }

  get renewTime(): string | undefined {
    return (this.#lease as Lease).spec?.renewTime;
  }

  get client() {
    const write = async <T extends KubeObject>(_: unknown, lease: unknown) => {
      this.#lease = lease;
      return lease as T;
    };
    return { get: async <T extends KubeObject>() => this.#lease as T, create: write, update: write };
  }
}

const newKeeper = (stored: StoredLease): LeaseKeeper =>
  new LeaseKeeper({
    client: stored.client,
    lease: electionLease,
    identity: 'me',
    timings: slowTimings,
    fence,
    descriptionAnnotation,
    log: new RecordingLog(),
  });

test('publishes renewals that advance with the monotonic clock while the wall clock stands still or is set back', async () => {
  const stored = new StoredLease();
  const keeper = newKeeper(stored);
  const renewTimeAt = async (wall: string, monotonicMs: number) => {
    jest.spyOn(Date, 'now').mockReturnValue(Date.parse(wall));
    jest.spyOn(performance, 'now').mockReturnValue(monotonicMs);
    await keeper.acquire(await stored.client.get());
    return stored.renewTime;
  };
  expect(await renewTimeAt('2026-01-01T00:00:10Z', 5000)).toBe('2026-01-01T00:00:10.000000Z');
  expect(await renewTimeAt('2026-01-01T00:00:10Z', 7000)).toBe('2026-01-01T00:00:12.000000Z');
  expect(await renewTimeAt('2026-01-01T00:00:08Z', 9000)).toBe('2026-01-01T00:00:14.000000Z');
  expect(await renewTimeAt('2026-01-01T00:00:30Z', 11_000)).toBe('2026-01-01T00:00:30.000000Z');
});

test('a Lease that is created again counts its holders from the one that was observed last', async () => {
  const stored = new StoredLease();
  const keeper = newKeeper(stored);
  const last = { ...(await stored.client.get<Lease>()), spec: { holderIdentity: 'other', leaseTransitions: 7 } };
  await keeper.acquire(undefined, { last });
  expect(keeper.transitions).toBe(8);
  await keeper.acquire(undefined);
  expect(keeper.transitions).toBe(8);
});

test('renews at once when the description is published', async () => {
  const stored = new StoredLease();
  const keeper = newKeeper(stored);
  await keeper.acquire(await stored.client.get());
  const stop = new AbortController();
  const renewing = keeper.keepRenewing(stop.signal);
  // The first renewal is over, and the next is due after the retry period.
  await setImmediate();
  keeper.publish('container 1');
  await eventually('the description is published', async () => stored.annotations?.[descriptionAnnotation], 5000);
  stop.abort();
  await renewing;
});

test('describes the holder from the renewal after publish on, and removes the description of the holder before', async () => {
  const stored = new StoredLease();
  const keeper = newKeeper(stored);
  await keeper.acquire(await stored.client.get());
  expect(stored.annotations).toEqual({ note: 'kept' });
  keeper.publish('container 1');
  expect(stored.annotations).toEqual({ note: 'kept' });
  await keeper.acquire(await stored.client.get());
  expect(stored.annotations).toEqual({ note: 'kept', [descriptionAnnotation]: 'container 1' });
  await keeper.release();
  expect(stored.annotations).toEqual({ note: 'kept' });
});
