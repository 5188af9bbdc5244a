import { expect, test } from '@jest/globals';
import { measures } from '../measurements.ts';
import { type PartName, partNames, parts } from '../parts.ts';
import { readPlan } from '../plan.ts';
import { type Round, renewed, type VoidRound } from '../results.ts';
import { resultsOf, run, turn } from './results.ts';

const rows: Round = { scenario: 'rows', turns: { echoperator: turn({ rowsSeconds: 1 }) } };
const crash: Round = { scenario: 'crash', turns: { echoperator: turn({ coldCrash: 1 }) } };
const restart: VoidRound = { scenario: 'restart', turns: {}, reason: 'a restart sent requests' };

test('a part that is measured again replaces its own rounds, run and plan, and nothing else', () => {
  const before = resultsOf([rows, crash], {
    parts: { failover: run({ echoperator: 'old' }), external: run({ echoperator: 'old' }) },
    voidRounds: [restart, { ...restart, scenario: 'pets' }],
  });
  const plan = { ...readPlan({}), pets: 7, burst: 7 };
  expect(renewed(before, 'external', run({ echoperator: 'new' }), plan)).toEqual({
    ...before,
    parts: { failover: run({ echoperator: 'old' }), external: run({ echoperator: 'new' }) },
    plan: { ...readPlan({}), pets: 7 },
    rounds: [crash],
    voidRounds: [restart],
  });
});

test('each scenario, and each value of the plan but the number of repeats, belongs to one part', () => {
  const of = <T>(values: (part: PartName) => readonly T[]): readonly T[] => partNames.flatMap(values);
  const keys = of((name) => parts[name].plan);
  expect([...keys, 'repeats'].sort()).toEqual(Object.keys(readPlan({})).sort());
  const scenarios = of((name) => parts[name].scenarios);
  expect([...new Set(scenarios)].sort()).toEqual([...scenarios].sort());
  expect(scenarios).toEqual(expect.arrayContaining(Object.values(measures).map(({ scenario }) => scenario)));
});
