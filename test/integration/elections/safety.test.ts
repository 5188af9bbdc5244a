import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { LeaseTimings } from '../../../src/runtime/leader-election/index.ts';
import { eventually } from '../../../src/runtime/testing/index.ts';
import { removeClocksOfTheDead } from '../../../testkit/fake-clock.ts';
import { ConfigMap } from '../../../testkit/kinds.ts';
import { Arena } from './environment/arena.ts';
import { Contest } from './environment/contest.ts';
import type { Contestant } from './environment/contestant.ts';
import { namespace } from './environment/history.ts';
import { contendAtRandom, timeLimitMs } from './environment/random-elections.ts';

/**
 * Few elections, by the same faults each time: of this seed each kind comes over somebody within about 10 s.
 * safety.nightly.test.ts has many elections, by other faults each time.
 */
const options = { seed: 2207, elections: 20, lateWrite: false };

let arena: Arena;

beforeAll(async () => {
  arena = await Arena.open();
}, 300_000);

afterAll(async () => {
  await arena[Symbol.asyncDispose]();
  await removeClocksOfTheDead();
});

test(
  'nobody begins a write to what another leads, and in the end somebody leads everything',
  async () => {
    await using contest = new Contest(arena);
    console.log(await contendAtRandom(arena, contest, options));
    const { elections, begun } = await contest.expectNoViolation();
    expect(elections).toBeGreaterThanOrEqual(options.elections);
    // Else it has tested nothing.
    expect(begun).toBeGreaterThan(options.elections);
  },
  timeLimitMs(options) + 180_000,
);

/** Those who are not to be frozen have the time to renew, also on a machine that is busy. */
const longer: LeaseTimings = { leaseDurationSeconds: 4, renewDeadlineSeconds: 2.5, retryPeriodSeconds: 0.5 };

test.each([
  ['that has connections to spare', 32],
  ['whose requests wait for a connection', 1],
])('a leader %s, frozen for longer than its Lease lasts, begins nothing when it wakes', async (_, connections) => {
  await using contest = new Contest(arena);
  const lock = `frozen-${connections}`;
  await arena.client.create(ConfigMap, { metadata: { namespace, name: lock } });
  const entry = { locks: [lock], timings: longer, connections };
  const one = await contest.enter({ ...entry, name: `frozen-${connections}-one` });
  const other = await contest.enter({ ...entry, name: `frozen-${connections}-other` });
  const [victim, heir] = await eventually('one leads', async () => {
    if ((await one.held()).length === 1) return [one, other] as const;
    return (await other.held()).length === 1 && ([other, one] as const);
  });
  const begunBefore = await begunBy(victim);
  await eventually('it writes', async () => (await begunBy(victim)) > begunBefore);
  victim.freeze();
  await eventually('the other leads', async () => (await heir.held()).length === 1);
  expect(await victim.thaw()).toBe(true);
  await eventually('the victim stands by', async () => victim.proxy.watches === 1);
  for (const contestant of [one, other]) await contestant.stop();
  await contest.expectNoViolation();
});

async function begunBy(contestant: Contestant): Promise<number> {
  const lines = (await contestant.testimonies()).flatMap((testimony) => testimony.lines);
  return lines.filter(({ type }) => type === 'begun').length;
}
