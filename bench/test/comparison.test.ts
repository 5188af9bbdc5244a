import { describe, expect, test } from '@jest/globals';
import { comparisons, curve, figure, present, ratio } from '../comparison.ts';
import type { Measure } from '../measurements.ts';
import type { Contender, Round, VoidRound } from '../results.ts';
import { loadRound, resultsOf, turn } from './results.ts';

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

describe('a comparison', () => {
  const rate = { measure: 'echosPerSecond', peer: 'controller-runtime' } as const;
  const start = { measure: 'start', peer: 'controller-runtime' } as const;
  const against = (peer: Contender, measure: Measure, ours: readonly number[]) =>
    ours.map((value) => loadRound({ echoperator: { [measure]: value }, [peer]: { [measure]: 100 } }));

  test.each([
    ['start', [90, 95, 99], 'ahead'],
    ['start', [90, 95, 100], 'undecided'],
    ['start', [101, 120], 'behind'],
    ['echosPerSecond', [101, 120], 'ahead'],
    ['echosPerSecond', [90, 101, 120], 'undecided'],
    ['echosPerSecond', [90, 99], 'behind'],
  ] as const)('stands by its whole interval: %s %p is %s', (measure, ours, standing) => {
    const found = comparisons(resultsOf(against('kube-rs', measure, ours)), [{ measure, peer: 'kube-rs' }]);
    expect(found.map((comparison) => comparison.standing)).toEqual([standing]);
  });

  test('of the wait at 60 % is with each of the two peers', () => {
    const rounds = [
      loadRound({
        echoperator: { pace60P99: 100 },
        'controller-runtime': { pace60P99: 200 },
        'kube-rs': { pace60P99: 50 },
      }),
    ];
    expect(comparisons(resultsOf(rounds)).map(({ peer, standing }) => [peer, standing])).toEqual([
      ['controller-runtime', 'ahead'],
      ['kube-rs', 'behind'],
    ]);
  });

  test('of a figure that depends on the number of cached objects is for the judged number', () => {
    const rounds = [1000, 20_000].flatMap((objects) =>
      against('controller-runtime', 'start', [objects / 200]).map((round) => ({ ...round, objects })),
    );
    expect(comparisons(resultsOf(rounds))).toEqual([
      expect.objectContaining({ standing: 'undecided', estimate: expect.objectContaining({ count: 1 }) }),
    ]);
  });

  describe('counts a round that ours failed', () => {
    const lost = (failed: Contender, scenario: Round['scenario'], more: Partial<VoidRound> = {}): VoidRound => ({
      scenario,
      turns: {},
      failed,
      reason: 'late',
      ...more,
    });
    const rounds = against('controller-runtime', 'echosPerSecond', Array(7).fill(130));

    test('as the worst ratio in its scenario, and none that another failed', () => {
      const voidRounds = [lost('echoperator', 'load'), lost('kube-rs', 'load'), lost('echoperator', 'crash')];
      expect(comparisons(resultsOf(rounds, { voidRounds }), [rate])).toEqual([
        expect.objectContaining({
          standing: 'undecided',
          estimate: expect.objectContaining({ count: 8, low: 0, median: 1.3 }),
        }),
      ]);
    });

    test('with the judged number of objects, and with no other, even if ours has no figure', () => {
      const voidRounds = [1000, 20_000].map((objects) => lost('echoperator', 'cache', { objects }));
      expect(comparisons(resultsOf(rounds, { voidRounds }), [start])).toEqual([
        expect.objectContaining({
          standing: 'behind',
          estimate: expect.objectContaining({ count: 1, median: Infinity }),
        }),
      ]);
    });

    test('and not against a peer that did not take part in the run', () => {
      const voidRounds = [lost('echoperator', 'load', { turns: { 'kube-rs': turn({ echosPerSecond: 1 }) } })];
      expect(comparisons(resultsOf([], { voidRounds }), [rate])).toEqual([]);
      expect(comparisons(resultsOf([], { voidRounds }), [{ ...rate, peer: 'kube-rs' }])).toEqual([
        expect.objectContaining({ standing: 'behind' }),
      ]);
    });
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
