import { describe, expect, test } from '@jest/globals';
import { curve, figure, present, ratio, verdicts } from '../comparison.ts';
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

  test.each([
    ['echosPerSecond', 110, 109],
    ['cpuPerEcho', 80, 81],
    ['warmCpuPerEcho', 80, 81],
    ['longCpuPerEcho', 65, 66],
    ['serverCpuPerEcho', 100, 101],
    ['peakAnonymous', 200, 201],
    ['longPeakAnonymous', 80, 81],
    ['start', 100, 101],
    ['coldHandover', 25, 26],
    ['warmHandover', 25, 26],
    ['coldCrash', 30, 31],
    ['warmCrash', 30, 31],
    ['coldIdleRequests', 100, 101],
    ['warmIdleRequests', 100, 101],
  ] as const)('of a ratio to controller-runtime: %s', (measure, enough, notEnough) => {
    expect(met({ [measure]: enough }, { [measure]: 100 })).toEqual([true]);
    expect(met({ [measure]: notEnough }, { [measure]: 100 })).toEqual([false]);
  });

  test('of two peers is for the one with the better median', () => {
    const rounds = [90, 100, 110].map((theirs) =>
      loadRound({
        echoperator: { pace60P99: 100 },
        'controller-runtime': { pace60P99: theirs },
        'kube-rs': { pace60P99: 101 },
      }),
    );
    expect(verdicts(resultsOf(rounds))).toEqual([
      expect.objectContaining({ title: 'at 60 %: p99 wait, ms ÷ controller-runtime, the better peer', met: true }),
    ]);
    const [verdict] = verdicts(resultsOf(rounds.slice(2)));
    expect(verdict).toMatchObject({ title: 'at 60 %: p99 wait, ms ÷ kube-rs, the better peer', met: true });
  });

  test('of a figure that depends on the number of cached objects is for the judged number', () => {
    const round = (objects: number, ours: number): Round => ({
      ...loadRound({ echoperator: { start: ours }, 'controller-runtime': { start: 100 } }),
      scenario: 'cache',
      objects,
    });
    expect(verdicts(resultsOf([round(1000, 200), round(20_000, 100)]))).toEqual([
      expect.objectContaining({ asked: '≤ 1', met: true, estimate: expect.objectContaining({ count: 1 }) }),
    ]);
  });

  test.each([
    ['misses the median and reaches the better end', [106, 107, 108, 109, 109, 115, 120], false, false],
    ['meets the median and misses the worse end', [106, 107, 108, 110, 112, 115, 120], true, false],
    ['meets the worse end', [110, 111, 111, 111, 112, 115, 120], true, true],
  ])('that %s', (_, rates, met, metAtWorseEnd) => {
    const rounds = rates.map((rate) =>
      loadRound({ echoperator: { echosPerSecond: rate }, 'controller-runtime': { echosPerSecond: 100 } }),
    );
    expect(verdicts(resultsOf(rounds))).toEqual([expect.objectContaining({ asked: '≥ 1.1', met, metAtWorseEnd })]);
  });

  test('counts a round that ours failed as lost, and none that another failed', () => {
    const rounds = against({ echosPerSecond: 130, start: 1 }, { echosPerSecond: 100, start: 2 });
    const lost = (failed: Contender, scenario: Round['scenario']) => ({ scenario, turns: {}, failed, reason: 'late' });
    const voidRounds = [lost('echoperator', 'load'), lost('kube-rs', 'load'), lost('echoperator', 'crash')];
    expect(verdicts(resultsOf(rounds, { voidRounds }))).toEqual([
      expect.objectContaining({ asked: '≥ 1.1', met: true, metAtWorseEnd: false }),
      expect.objectContaining({ asked: '≤ 1', met: true, metAtWorseEnd: false }),
    ]);
    expect(verdicts(resultsOf(rounds, { voidRounds }))[1]?.estimate).toMatchObject({ count: 8, high: Infinity });
  });

  test('of idle memory is in MB, and only for our operator', () => {
    expect(verdicts(resultsOf(against({ idleAnonymous: 20 }, { idleAnonymous: 5 })))).toEqual([
      expect.objectContaining({ asked: '≤ 20', met: true }),
    ]);
    expect(met({ idleAnonymous: 20.1 }, {})).toEqual([false]);
  });
});

test('a curve has the median of each contender with each number of cached objects', () => {
  const round = (objects: number, ours: number, theirs?: number): Round => ({
    ...loadRound({ echoperator: { start: ours }, ...(theirs !== undefined && { 'kube-rs': { start: theirs } }) }),
    scenario: 'cache',
    objects,
  });
  const rounds = [round(5000, 30), round(1000, 10, 5), round(1000, 20, 7), loadRound({ echoperator: { start: 1 } })];
  const medians = curve(resultsOf(rounds), 'start').map(({ objects, estimates }) => [
    objects,
    estimates.echoperator?.median,
    estimates['kube-rs']?.median,
  ]);
  expect(medians).toEqual([
    [1000, 15, 6],
    [5000, 30, undefined],
  ]);
  expect(curve(resultsOf(rounds), 'eventCpu')).toEqual([]);
});
