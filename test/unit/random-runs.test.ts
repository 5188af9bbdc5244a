import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { minutesOf, nightlyPlan, RandomRunError, runAtRandom } from '../../testkit/random-runs.ts';

beforeEach(() => {
  jest.spyOn(console, 'log').mockImplementation(() => {});
});

afterEach(() => {
  jest.restoreAllMocks();
});

const plan = { seed: 1, maxRuns: 5, minEffectiveRuns: 0 };
const effects = { writes: 1, faults: 1 };

test('the seed repeats what the runs do', async () => {
  const valuesOf = async (seed: number): Promise<readonly number[]> => {
    const values: number[] = [];
    await runAtRandom({ ...plan, seed }, fc.nat(), async (value) => {
      values.push(value);
      return effects;
    });
    return values;
  };
  expect(await valuesOf(7)).toEqual(await valuesOf(7));
  expect(await valuesOf(7)).not.toEqual(await valuesOf(8));
});

test('a run that fails after the time limit fails the test, and the message has its seed', async () => {
  let nowMs = 0;
  const late = async () => {
    nowMs += 2000;
    throw new Error('too many rows');
  };
  const runs = runAtRandom({ ...plan, timeLimitMs: 1000 }, fc.nat(), late, () => nowMs);
  await expect(runs).rejects.toMatchObject({
    name: 'RandomRunError',
    message: expect.stringMatching(/^run 1 of seed 1 failed: \d+$/),
    cause: new Error('too many rows'),
  });
});

test('no run begins after the time limit, and the last one is awaited', async () => {
  let nowMs = 0;
  let ended = 0;
  const run = async () => {
    nowMs += 600;
    await delay(20);
    ended += 1;
    return effects;
  };
  await runAtRandom({ ...plan, timeLimitMs: 1000 }, fc.nat(), run, () => nowMs);
  expect(ended).toBe(2);
});

test.each([
  ['a fault', { writes: 1, faults: 0 }],
  ['a write', { writes: 0, faults: 1 }],
])('a run without %s does not count', async (_, done) => {
  const runs = runAtRandom({ ...plan, minEffectiveRuns: 1 }, fc.nat(), async () => done);
  await expect(runs).rejects.toBeInstanceOf(RandomRunError);
});

test('too small a share of effective runs fails the test', async () => {
  let runs = 0;
  const run = async () => {
    runs += 1;
    return { writes: 1, faults: runs === 1 ? 1 : 0 };
  };
  const running = runAtRandom({ ...plan, minEffectiveShare: 0.5 }, fc.nat(), run);
  await expect(running).rejects.toThrow('of 5 runs of seed 1 only 1 had a write and a fault, not 3');
});

test('too few runs within the time limit fail the test', async () => {
  let nowMs = 0;
  const run = async () => {
    nowMs += 2000;
    return effects;
  };
  const runs = runAtRandom({ ...plan, minEffectiveRuns: 2, timeLimitMs: 1000 }, fc.nat(), run, () => nowMs);
  await expect(runs).rejects.toThrow('of 1 runs of seed 1 only 1 had a write and a fault, not 2');
});

test('a nightly plan takes its length and its seed from the environment, and wants a run a minute and a quarter of all', () => {
  expect(nightlyPlan('PETS', { PETS_MINUTES: '3', PETS_SEED: '42' })).toMatchObject({
    seed: 42,
    timeLimitMs: 180_000,
    minEffectiveRuns: 3,
    minEffectiveShare: 0.25,
  });
  expect(() => nightlyPlan('PETS', { PETS_MINUTES: 'ten' })).toThrow('PETS_MINUTES: got "ten"');
  expect(() => minutesOf('SOAK_MINUTES', { SOAK_MINUTES: '0' })).toThrow('SOAK_MINUTES: got "0"');
  expect(nightlyPlan('PETS', {}).seed).not.toBe(nightlyPlan('PETS', {}).seed);
});
