import { describe, expect, test } from '@jest/globals';
import { eventCostBySize, figure, present, ratio, verdicts } from '../comparison.ts';
import type { Figures } from '../measurements.ts';
import type { Contender, Round } from '../results.ts';
import { loadRound, resultsOf } from './results.ts';

const against = (ours: Figures, theirs: Figures) =>
  Array.from({ length: 7 }, () => loadRound({ echoperator: ours, 'controller-runtime': theirs }));

test('a ratio is the median of the ratios of the rounds, not the ratio of the medians', () => {
  const rounds = [
    loadRound({ echoperator: { start: 10 }, 'kube-rs': { start: 1 } }),
    loadRound({ echoperator: { start: 20 }, 'kube-rs': { start: 20 } }),
    loadRound({ echoperator: { start: 30 }, 'kube-rs': { start: 60 } }),
  ];
  expect(figure(rounds, 'echoperator', 'start')?.median).toBe(20);
  expect(ratio(rounds, 'kube-rs', 'start')?.median).toBe(1);
});

test('a round in which one of the two did not take part does not count for a ratio', () => {
  const rounds = [
    loadRound({ echoperator: { start: 30 }, 'client-node': { start: 10 } }),
    loadRound({ echoperator: { start: 99 } }),
  ];
  expect(ratio(rounds, 'client-node', 'start')).toMatchObject({ median: 3, count: 1 });
  expect(ratio(rounds, 'kube-rs', 'start')).toBeUndefined();
  expect(present(rounds)).toEqual(['echoperator', 'client-node']);
});

describe('a bar', () => {
  const met = (ours: Figures, theirs: Figures): readonly boolean[] =>
    verdicts(resultsOf(against(ours, theirs))).map((verdict) => verdict.met);

  test('of a rate is met if the rate is at least the bound', () => {
    expect(met({ echosPerSecond: 125 }, { echosPerSecond: 100 })).toEqual([true]);
    expect(met({ echosPerSecond: 124 }, { echosPerSecond: 100 })).toEqual([false]);
  });

  test('of a time is met if the time is at most the bound', () => {
    expect(met({ burstP50: 30 }, { burstP50: 100 })).toEqual([true]);
    expect(met({ burstP50: 31 }, { burstP50: 100 })).toEqual([false]);
  });

  test.each([
    ['coldHandover', 25, 26],
    ['warmHandover', 25, 26],
    ['coldCrash', 30, 31],
    ['warmCrash', 30, 31],
    ['coldIdleRequests', 100, 101],
    ['warmIdleRequests', 100, 101],
  ] as const)('of failover: %s', (measure, enough, tooMuch) => {
    expect(met({ [measure]: enough }, { [measure]: 100 })).toEqual([true]);
    expect(met({ [measure]: tooMuch }, { [measure]: 100 })).toEqual([false]);
  });

  test.each([
    ['misses the median and reaches the better end', [120, 121, 122, 123, 124, 130, 140], false, false],
    ['meets the median and misses the worse end', [120, 121, 122, 125, 126, 130, 140], true, false],
    ['meets the worse end', [125, 126, 126, 126, 126, 130, 140], true, true],
  ])('that %s', (_, rates, met, metAtWorseEnd) => {
    const rounds = rates.map((rate) =>
      loadRound({ echoperator: { echosPerSecond: rate }, 'controller-runtime': { echosPerSecond: 100 } }),
    );
    expect(verdicts(resultsOf(rounds))).toEqual([expect.objectContaining({ asked: '≥ 1.25', met, metAtWorseEnd })]);
  });

  test('counts a round that ours failed as lost, and none that another failed', () => {
    const rounds = against({ echosPerSecond: 130, start: 1 }, { echosPerSecond: 100, start: 2 });
    const lost = (failed: Contender, scenario: Round['scenario']) => ({ scenario, turns: {}, failed, reason: 'late' });
    const voidRounds = [lost('echoperator', 'load'), lost('kube-rs', 'load'), lost('echoperator', 'crash')];
    expect(verdicts(resultsOf(rounds, { voidRounds }))).toEqual([
      expect.objectContaining({ asked: '≥ 1.25', met: true, metAtWorseEnd: false }),
      expect.objectContaining({ asked: '≤ 1', met: true, metAtWorseEnd: false }),
    ]);
    expect(verdicts(resultsOf(rounds, { voidRounds }))[1]?.estimate).toMatchObject({ count: 8, high: Infinity });
  });

  test('of idle memory is in MB, and only for our operator', () => {
    expect(verdicts(resultsOf(against({ idleMemory: 70 }, { idleMemory: 500 })))).toEqual([
      expect.objectContaining({ asked: '≤ 70', met: true }),
    ]);
    expect(met({ idleMemory: 71 }, {})).toEqual([false]);
  });
});

test('the cost of an event is divided by the cost with the fewest objects', () => {
  const cost = (size: number, cpuPerEvent: number) => ({ size, cpuPerEvent, disturbance: 0 });
  const eventCosts = [cost(1000, 0.04), cost(50_000, 0.06), cost(50_000, 0.05), cost(1000, 0.06)];
  expect(eventCostBySize(resultsOf([], { eventCosts })).map(({ size, ratio: of }) => [size, of.toFixed(2)])).toEqual([
    [1000, '1.00'],
    [50_000, '1.10'],
  ]);
});
