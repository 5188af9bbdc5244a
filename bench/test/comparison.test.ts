import { describe, expect, test } from '@jest/globals';
import { type Bar, curve, figure, present, ratio, verdicts } from '../comparison.ts';
import type { Figures } from '../measurements.ts';
import type { Contender, Round, VoidRound } from '../results.ts';
import { loadRound, resultsOf, turn } from './results.ts';

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

  test.each([
    ['kube-rs', 'peakAnonymous', 200, 201],
    ['unrecorded', 'besidePeakAnonymous', 106, 107],
  ] as const)('of a ratio to %s: %s', (peer, measure, enough, notEnough) => {
    const metBy = (ours: number) =>
      verdicts(resultsOf([loadRound({ echoperator: { [measure]: ours }, [peer]: { [measure]: 100 } })])).map(
        ({ met }) => met,
      );
    expect([metBy(enough), metBy(notEnough)]).toEqual([[true], [false]]);
  });

  test('of two peers is for the better one of each round, of those that have a figure', () => {
    const pace60P99 = (ours: number, go?: number, rust?: number) =>
      loadRound({
        echoperator: { pace60P99: ours },
        ...(go !== undefined && { 'controller-runtime': { pace60P99: go } }),
        ...(rust !== undefined && { 'kube-rs': { pace60P99: rust } }),
      });
    // Ours is better than each peer by the median of the ratios, and in no round better than both.
    const rounds = [pace60P99(100, 80, 200), pace60P99(100, 200, 80), pace60P99(100, 50), pace60P99(100)];
    expect(verdicts(resultsOf(rounds))).toEqual([
      expect.objectContaining({
        title: 'at 60 %: p99 wait, ms ÷ the better peer of each round',
        met: false,
        estimate: expect.objectContaining({ median: 1.25, low: 1.25, high: 2, count: 3 }),
      }),
    ]);
  });

  test('of two peers takes the higher figure where more is better', () => {
    const bar: Bar = { measure: 'petsPerSecond', peers: ['ceiling', 'before'], bound: { atLeast: 1 } };
    const round = loadRound({
      echoperator: { petsPerSecond: 100 },
      ceiling: { petsPerSecond: 50 },
      before: { petsPerSecond: 200 },
    });
    expect(verdicts(resultsOf([round]), [bar])[0]?.estimate.median).toBe(0.5);
  });

  test('has a limit, if one is known', () => {
    const bar: Bar = { measure: 'idleAnonymous', bound: { atMost: 20 } };
    const results = resultsOf([loadRound({ echoperator: { idleAnonymous: 30 } })]);
    expect(verdicts(results, [{ ...bar, limit: 'V8 takes 25 MB' }])[0]?.limit).toBe('V8 takes 25 MB');
    expect(verdicts(results, [bar])[0]).not.toHaveProperty('limit');
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

  describe('counts a round that ours failed', () => {
    const rate: Bar = { measure: 'echosPerSecond', peers: ['controller-runtime'], bound: { atLeast: 1.1 } };
    const start: Bar = { measure: 'start', peers: ['controller-runtime'], bound: { atMost: 1 } };
    const writes: Bar = { measure: 'statusWrites', bound: { atMost: 2.1 } };
    const lost = (failed: Contender, scenario: Round['scenario'], more: Partial<VoidRound> = {}): VoidRound => ({
      scenario,
      turns: {},
      failed,
      reason: 'late',
      ...more,
    });
    const rounds = against({ echosPerSecond: 130 }, { echosPerSecond: 100 });

    test('as lost in its scenario, and none that another failed', () => {
      const voidRounds = [lost('echoperator', 'load'), lost('kube-rs', 'load'), lost('echoperator', 'crash')];
      expect(verdicts(resultsOf(rounds, { voidRounds }), [rate])).toEqual([
        expect.objectContaining({
          met: true,
          metAtWorseEnd: false,
          estimate: expect.objectContaining({ count: 8, low: 0 }),
        }),
      ]);
    });

    test('as lost with the judged number of objects, and with no other', () => {
      const voidRounds = [1000, 20_000].map((objects) => lost('echoperator', 'cache', { objects }));
      expect(verdicts(resultsOf(rounds, { voidRounds }), [start])).toEqual([
        expect.objectContaining({ met: false, estimate: expect.objectContaining({ count: 1, median: Infinity }) }),
      ]);
    });

    test('as missed if ours has no figure at all, with a peer and without', () => {
      const voidRounds = [lost('echoperator', 'cache'), lost('echoperator', 'to Succeeded')];
      const found = verdicts(resultsOf(rounds, { voidRounds }), [start, writes]);
      expect(found.map(({ met, estimate }) => [met, estimate.median])).toEqual([
        [false, Infinity],
        [false, Infinity],
      ]);
    });

    test('and not for a bar whose peer did not take part in the run', () => {
      const voidRounds = [lost('echoperator', 'load', { turns: { 'kube-rs': turn({ echosPerSecond: 1 }) } })];
      expect(verdicts(resultsOf([], { voidRounds }), [rate])).toEqual([]);
      expect(verdicts(resultsOf([], { voidRounds }), [{ ...rate, peers: ['kube-rs'] }])).toEqual([
        expect.objectContaining({ met: false }),
      ]);
    });
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
