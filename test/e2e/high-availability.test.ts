import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { defaultTimings } from '../../packages/runtime/src/leader-election/timings.ts';
import { eventually } from '../../testkit/eventually.ts';
import { processState, signalAll } from './environment/process-state.ts';
import { Trials } from './environment/trials.ts';

// The chart's timings are the runtime's defaults: 15, 10 and 2 s.
const leaseDurationMs = defaultTimings.leaseDurationSeconds * 1000;
const retryPeriodMs = defaultTimings.retryPeriodSeconds * 1000;
/**
 * Without crash detection, no standby acquires the Lease earlier than `leaseDurationMs` after its last renewal, even on
 * a fast machine.
 */
const wellBeforeExpiryMs = (leaseDurationMs * 2) / 3;

let trials: Trials;

beforeAll(async () => {
  trials = await Trials.begin();
});

afterAll(() => trials?.end());

test('when the leader’s container is killed, another pod leads and creates Jobs well before the Lease could expire', async () => {
  const { handovers } = await trials.run({
    name: 'container killed',
    disturb: async (leader) => {
      const { [leader.pod]: before } = await trials.restarts();
      signalAll(await trials.processesOf(leader.pod), 'SIGKILL');
      await trials.replicas.holderOtherThan(leader);
      expect(await trials.startedAgain(leader.pod, before)).toMatchObject({ exitCode: 137 });
    },
  });
  expect(handovers).toHaveLength(1);
  expect(handovers[0]?.workMs).toBeLessThan(wellBeforeExpiryMs);
});

test('in a rolling upgrade each leader hands over within a retry period', async () => {
  const before = await trials.restarts();
  const { handovers } = await trials.run({
    name: 'rolling upgrade',
    disturb: () => trials.upgrade('--set', `podAnnotations.upgraded=at-${Date.now()}`),
  });
  expect((await trials.replicas.pods()).filter(({ metadata }) => metadata.name in before)).toEqual([]);
  expect(handovers).not.toEqual([]);
  expect(Math.max(...handovers.map(({ leaseMs }) => leaseMs))).toBeLessThan(retryPeriodMs);
  expect(handovers.at(-1)?.workMs).toBeLessThan(wellBeforeExpiryMs);
});

test('a frozen leader loses the Lease when it expires, not before, and writes nothing when it wakes', async () => {
  let frozen = '';
  let wokenAt = '';
  const { handovers, writes } = await trials.run({
    name: 'leader frozen',
    disturb: async (leader) => {
      frozen = leader.pod;
      const { [frozen]: before } = await trials.restarts();
      const pids = await trials.processesOf(frozen);
      signalAll(pids, 'SIGSTOP');
      try {
        await eventually('it is frozen', async () =>
          (await Promise.all(pids.map(processState))).every((state) => state === 'T'),
        );
        await trials.replicas.holderOtherThan(leader);
        // The new leader writes meanwhile.
        await delay(retryPeriodMs);
      } finally {
        wokenAt = new Date().toISOString();
        signalAll(pids, 'SIGCONT');
      }
      expect(await trials.startedAgain(frozen, before)).toMatchObject({ exitCode: 1 });
    },
  });
  expect(handovers).toHaveLength(1);
  expect(handovers[0]?.leaseMs).toBeGreaterThan(leaseDurationMs);
  expect(writes.filter(({ pod, received }) => pod === frozen && received >= wokenAt)).toEqual([]);
});
