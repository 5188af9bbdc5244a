import { describe, expect, test } from '@jest/globals';
import { tickFor } from '../plots/curve-plot.ts';
import { ticksAround } from '../plots/distribution-plot.ts';
import { barPlot, curvePlot, distributionPlot } from '../plots/index.ts';
import { openElements } from './markup.ts';

const same = (median: number) => ({ median, low: median, high: median, count: 7, coverage: 0.98 });

const numbers = (svg: string, pattern: RegExp): readonly number[] =>
  [...svg.matchAll(pattern)].map(([, number]) => Number(number));

describe('a bar plot', () => {
  const plot = barPlot(
    'Waits & <rates>',
    [
      { name: 'kube-rs', estimate: { median: 50, low: 40, high: 100, count: 7, coverage: 0.98 } },
      { name: 'echoperator', estimate: same(25) },
    ],
    1,
  );

  test('is a well-formed picture with escaped text', () => {
    expect(openElements(plot)).toEqual([]);
    expect(plot).toContain('Waits &amp; &lt;rates&gt;');
    expect(plot).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" /);
  });

  test('has bars in proportion to their values within the picture, and shows the values', () => {
    const [, long = 0, short = 0] = numbers(plot, /<rect[^>]* width="([\d.]+)"/g);
    expect(long / short).toBeCloseTo(2, 1);
    expect(long * 2).toBeLessThan(720);
    expect(plot).toContain('>50.0<');
    expect(plot).toContain('>25.0<');
  });

  test('can be drawn if every value is 0', () => {
    expect(barPlot('Nothing', [{ name: 'kube-rs', estimate: same(0) }], 0)).not.toMatch(/NaN|Infinity/);
  });
});

describe('a plot of curves', () => {
  test('has a line per contender within the picture, whose x is logarithmic and whose y starts at zero', () => {
    const points = [1000, 10_000, 100_000].map((x) => ({ x, y: x / 1000 }));
    const plot = curvePlot('Start', 'objects', [{ name: 'kube-rs', points }]);
    expect(openElements(plot)).toEqual([]);
    const [[first = [], second = [], third = []] = []] = [...plot.matchAll(/points="([^"]+)"/g)].map(([, line = '']) =>
      line.split(' ').map((point) => point.split(',').map(Number)),
    );
    expect((third[0] ?? 0) - (second[0] ?? 0)).toBeCloseTo((second[0] ?? 0) - (first[0] ?? 0), 0);
    expect(third[1]).toBe(44);
    for (const [x = -1, y = -1] of [first, second, third]) expect(Math.min(x, y, 720 - x, 320 - y)).toBeGreaterThan(0);
  });

  test('can be drawn for one number of objects, and if every value is 0', () => {
    expect(curvePlot('Nothing', 'objects', [{ name: 'kube-rs', points: [{ x: 5, y: 0 }] }])).not.toMatch(
      /NaN|Infinity/,
    );
  });

  test('has ticks of 1, 2 or 5 times a power of ten', () => {
    expect([0.4, 4, 26, 50, 51, 5000].map(tickFor)).toEqual([0.1, 1, 10, 10, 20, 1000]);
  });
});

describe('a plot of distributions', () => {
  test('has a rising line per set of values within the picture', () => {
    const lines = [
      { name: 'echoperator', quantiles: [0, 10, 20, 40] },
      { name: 'kube-rs', quantiles: [5, 50, 500, 5000] },
    ];
    const plot = distributionPlot('Waits', 'ms', lines);
    expect(openElements(plot)).toEqual([]);
    const drawn = [...plot.matchAll(/points="([^"]+)"/g)].map(([, points = '']) =>
      points.split(' ').map((point) => point.split(',').map(Number) as [number, number]),
    );
    expect(drawn).toHaveLength(2);
    for (const points of drawn) {
      const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
      expect([...xs].sort((a, b) => a - b)).toEqual(xs);
      expect([...ys].sort((a, b) => b - a)).toEqual(ys);
      expect(Math.min(...xs, ...ys)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...xs)).toBeLessThanOrEqual(720);
    }
  });

  test.each([
    [3, 40, [2, 5, 10, 20, 50]],
    [1, 10, [1, 2, 5, 10]],
    [0.15, 0.3, [0.1, 0.2, 0.5]],
    [7, 7, [5, 10]],
  ])('has ticks from below %d to above %d', (low, high, ticks) => {
    expect(ticksAround(low, high)).toEqual(ticks);
  });
});
