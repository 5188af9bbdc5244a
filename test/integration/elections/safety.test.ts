import { ConfigMap } from '@echoperator/runtime/kinds';
import type { LeaseTimings } from '@echoperator/runtime/leader-election';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../../../testkit/eventually.ts';
import { removeLeftoverClocks } from '../../../testkit/fake-clock.ts';
import { Arena } from './environment/arena.ts';
import { Contest } from './environment/contest.ts';
import type { Contestant } from './environment/contestant.ts';
import { namespace } from './environment/history.ts';
import { contendAtRandom, timeLimitMs } from './environment/random-elections.ts';

/**
 * Few elections, with the same faults each time: with this seed each kind happens within about 10 s.
 * safety.nightly.test.ts runs many elections with other faults each time.
 */
const options = { seed: 2207, elections: 10, lateWrite: false };

let arena: Arena;

beforeAll(async () => {
  arena = await Arena.open();
}, 300_000);

afterAll(async () => {
  await arena[Symbol.asyncDispose]();
  await removeLeftoverClocks();
});

test(
  'no candidate starts a write while another one leads, and in the end each Lease has a leader',
  async () => {
    await using contest = new Contest(arena);
    console.log(await contendAtRandom(arena, contest, options));
    const { elections, begun } = await contest.expectNoViolation();
    expect(elections).toBeGreaterThanOrEqual(options.elections);
    // Otherwise the test has checked nothing.
    expect(begun).toBeGreaterThan(options.elections);
  },
  timeLimitMs(options) + 180_000,
);

/** Long enough that candidates that are not frozen can renew on a busy machine. */
const longer: LeaseTimings = { leaseDurationSeconds: 4, renewDeadlineSeconds: 2.5, retryPeriodSeconds: 0.5 };

test.each([
  ['with free connections', 32],
  ['with requests that wait for a connection', 1],
])('a leader %s that was frozen until its Lease expired starts no request when it wakes', async (_, connections) => {
  await using contest = new Contest(arena);
  const lock = `frozen-${connections}`;
  await arena.client.create(ConfigMap, { metadata: { namespace, name: lock } });
  const entry = { locks: [lock], timings: longer, connections };
  const one = await contest.enter({ ...entry, name: `frozen-${connections}-one` });
  const other = await contest.enter({ ...entry, name: `frozen-${connections}-other` });
  const [leader, standby] = await eventually('one leads', async () => {
    if ((await one.held()).length === 1) return [one, other] as const;
    return (await other.held()).length === 1 && ([other, one] as const);
  });
  const begunBefore = await countBegun(leader);
  await eventually('it writes', async () => (await countBegun(leader)) > begunBefore);
  leader.freeze();
  await eventually('the other leads', async () => (await standby.held()).length === 1);
  expect(await leader.thaw()).toBe(true);
  await eventually('the former leader stands by', async () => leader.proxy.watches === 1);
  for (const contestant of [one, other]) await contestant.stop();
  await contest.expectNoViolation();
});

async function countBegun(contestant: Contestant): Promise<number> {
  const lines = (await contestant.records()).flatMap((record) => record.lines);
  return lines.filter(({ type }) => type === 'begun').length;
}
