import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { removeLeftoverClocks } from '../../../testkit/fake-clock.ts';
import { Arena } from './environment/arena.ts';
import { Contest } from './environment/contest.ts';
import { contendAtRandom, timeLimitMs } from './environment/random-elections.ts';

/**
 * `ELECTIONS_SEED` repeats the faults of a run; `ELECTIONS` sets how often a lock must change its holder before it
 * ends.
 */
const { ELECTIONS_SEED = randomInt(2 ** 30), ELECTIONS = 1000 } = process.env;
const options = { seed: Number(ELECTIONS_SEED), elections: Number(ELECTIONS), lateWrite: true };

let arena: Arena;

beforeAll(async () => {
  arena = await Arena.open();
}, 300_000);

afterAll(async () => {
  await arena[Symbol.asyncDispose]();
  await removeLeftoverClocks();
});

test(
  'during many elections no candidate starts a write while another one leads, and in the end each Lease has a leader',
  async () => {
    console.log(`elections at random: ELECTIONS_SEED=${options.seed}`);
    await using contest = new Contest(arena);
    console.log(await contendAtRandom(arena, contest, options));
    const { elections, begun } = await contest.expectNoViolation();
    expect(elections).toBeGreaterThanOrEqual(options.elections);
    // Otherwise the test has checked nothing.
    expect(begun).toBeGreaterThan(options.elections);
  },
  timeLimitMs(options) + 180_000,
);
