import { describe, expect, test } from '@jest/globals';
import { partNames, parts } from '../parts.ts';
import { isWhole, type Plan, PlanError, readPlan } from '../plan.ts';

const short = (plan: Plan) => partNames.filter((part) => !isWhole(plan, parts[part].plan));

test('a run without settings is complete, and a run with QUICK=1 is not', () => {
  expect(short(readPlan({}))).toEqual([]);
  expect(short(readPlan({ QUICK: '0', ROUNDS: '' }))).toEqual([]);
  expect(short(readPlan({ QUICK: '1' }))).toEqual(partNames);
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
  expect(readPlan({})).toMatchObject({ rounds: 4, burst: 2000, longBurst: 10_000, judgedObjects: 20_000 });
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
    ['EXTERNAL_ROUNDS', 'externalRounds'],
    ['POSTGRES_WRITERS', 'postgresWriters'],
    ['PETS', 'pets'],
    ['NEIGHBOR_ROUNDS', 'neighborRounds'],
    ['NEIGHBOR_OBJECTS', 'neighborObjects'],
    ['REFUSED_ROUNDS', 'refusedRounds'],
    ['REFUSED_OBJECTS', 'refusedObjects'],
  ])('%s changes that alone, and less of it makes one part a short run', (variable, field) => {
    expect(readPlan({ [variable]: '1' })).toEqual({ ...readPlan({}), [field]: 1 });
    expect(short({ ...readPlan({}), [field]: 0 })).toHaveLength(1);
    expect(short(readPlan({ [variable]: '99999' }))).toEqual([]);
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
