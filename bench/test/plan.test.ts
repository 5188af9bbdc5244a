import { describe, expect, test } from '@jest/globals';
import { isWhole, PlanError, readPlan } from '../plan.ts';

test('a run without settings is complete, and a run with QUICK=1 is not', () => {
  expect(isWhole(readPlan({}))).toBe(true);
  expect(isWhole(readPlan({ QUICK: '0', ROUNDS: '' }))).toBe(true);
  expect(isWhole(readPlan({ QUICK: '1' }))).toBe(false);
});

test.each([{}, { QUICK: '1' }])('the judged number of objects is one of those that are measured: %p', (environment) => {
  const { cachedObjects, judgedObjects } = readPlan(environment);
  expect(cachedObjects).toContain(judgedObjects);
  expect(cachedObjects).toEqual([...cachedObjects].sort((a, b) => a - b));
});

test.each([{}, { QUICK: '1' }])('the flight recorder is judged side by side, not in turns: %p', (environment) => {
  const { besideRounds, someRounds } = readPlan(environment);
  expect(someRounds.unrecorded).toBe(0);
  expect(besideRounds).toBeGreaterThan(0);
});

test('the usual run is published', () => {
  expect(readPlan({})).toMatchObject({ rounds: 6, burst: 2000, longBurst: 10_000, judgedObjects: 20_000 });
});

describe('a setting', () => {
  test.each([
    ['ROUNDS', 'rounds'],
    ['BURST', 'burst'],
    ['BESIDE_ROUNDS', 'besideRounds'],
    ['BESIDE_BURST', 'besideBurst'],
    ['PACE_SECONDS', 'paceSeconds'],
    ['LONG_ROUNDS', 'longRounds'],
    ['LONG_BURST', 'longBurst'],
    ['CACHE_ROUNDS', 'cacheRounds'],
    ['CURVE_ROUNDS', 'curveRounds'],
    ['EVENT_COST_ROUNDS', 'eventCostRounds'],
    ['LIFECYCLE_ROUNDS', 'lifecycleRounds'],
    ['HANDOVER_ROUNDS', 'handoverRounds'],
    ['CRASH_ROUNDS', 'crashRounds'],
    ['NODE_ROUNDS', 'nodeRounds'],
    ['IDLE_ROUNDS', 'idleRounds'],
    ['OUTSIDE_ROUNDS', 'outsideRounds'],
    ['POSTGRES_WRITERS', 'postgresWriters'],
    ['PETS', 'pets'],
  ])('%s changes that alone, and less of it is no whole run', (variable, field) => {
    expect(readPlan({ [variable]: '1' })).toEqual({ ...readPlan({}), [field]: 1 });
    expect(isWhole({ ...readPlan({}), [field]: 0 })).toBe(false);
    expect(isWhole(readPlan({ [variable]: '99999' }))).toBe(true);
  });

  test.each(['0', '-1', '1.5', 'many', '100000'])('ROUNDS=%s is rejected with its name', (text) => {
    expect(() => readPlan({ ROUNDS: text })).toThrow(
      new PlanError(`ROUNDS: got "${text}", takes a whole number from 1 to 99999`),
    );
  });

  test('LONG_ROUNDS may be 0, and QUICK only 1 or 0', () => {
    expect(readPlan({ LONG_ROUNDS: '0' }).longRounds).toBe(0);
    expect(() => readPlan({ QUICK: 'yes' })).toThrow('QUICK: got "yes"');
  });
});
