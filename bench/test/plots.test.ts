import { describe, expect, test } from '@jest/globals';
import { barPlot, curvePlot, distributionPlot } from '../plots/index.ts';
import { openElements } from './markup.ts';

const width = 440;
const same = (median: number) => ({ median, low: median, high: median, count: 7, coverage: 0.98 });

/** The corners of each line with this colour. */
const linesOf = (svg: string, stroke: string): readonly (readonly (readonly [x: number, y: number])[])[] =>
  [...svg.matchAll(/<path d="([^"]*)"[^>]* stroke="([^"]*)" stroke-width="2\.5"/g)]
    .filter(([, , color]) => color === stroke)
    .map(([, path = '']) =>
      [...path.matchAll(/[ML]([\d.]+) ([\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)] as const),
    );

describe('a bar plot', () => {
  const plot = barPlot(
    'Waits & <rates>',
    [
      { name: 'kube-rs', estimate: { median: 50, low: 40, high: 100, count: 7, coverage: 0.98 } },
      { name: 'echoperator', estimate: same(25) },
    ],
    1,
  );

  test('is a well-formed picture with escaped text and colours for the dark mode', () => {
    expect(openElements(plot)).toEqual([]);
    expect(plot).toContain('<title>Waits &amp; &lt;rates&gt;</title>');
    expect(plot).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" /);
    expect(plot).toContain('prefers-color-scheme: dark');
  });

  test('has bars in proportion to their values within the picture, and shows the values', () => {
    const [long = 0, short = 0] = ['#00795a', '#0072b2'].map((color) =>
      Number(new RegExp(`<path d="M[\\d.]+ [\\d.]+l([\\d.]+) 0[^"]*" fill="${color}"`).exec(plot)?.[1]),
    );
    expect(long / short).toBeCloseTo(2, 1);
    expect(long * 2).toBeLessThan(width);
    expect(plot).toContain('>50.0<');
    expect(plot).toContain('>25.0<');
  });

  test('can be drawn if every value is 0', () => {
    expect(barPlot('Nothing', [{ name: 'kube-rs', estimate: same(0) }], 0)).not.toMatch(/NaN|Infinity/);
  });
});

describe('a plot of curves', () => {
  test('has a line per contender within the picture, whose x is logarithmic', () => {
    const points = [1000, 10_000, 100_000].map((x) => ({ x, y: x / 1000 }));
    const plot = curvePlot('Start', 'objects', [{ name: 'kube-rs', points }]);
    expect(openElements(plot)).toEqual([]);
    expect(plot).toContain('>10,000<');
    const [[first = [0, 0], second = [0, 0], third = [0, 0]] = []] = linesOf(plot, '#00795a');
    expect(third[0] - second[0]).toBeCloseTo(second[0] - first[0], 0);
    for (const [x, y] of [first, second, third]) expect(Math.min(x, y, width - x, 340 - y)).toBeGreaterThan(0);
  });

  test('can be drawn for one number of objects, and if every value is 0', () => {
    const plot = curvePlot('Nothing', 'objects', [{ name: 'kube-rs', points: [{ x: 5, y: 0 }] }]);
    expect(plot).not.toMatch(/NaN|Infinity/);
  });
});

describe('a plot of distributions', () => {
  const lines = [
    { name: 'echoperator', quantiles: [0, 10, 20, 40] },
    { name: 'kube-rs', quantiles: [5, 50, 500, 5000] },
  ];
  const plot = distributionPlot('Waits', 'ms', lines);

  test('has a rising line per set of values within the picture', () => {
    expect(openElements(plot)).toEqual([]);
    const drawn = ['#0072b2', '#00795a'].flatMap((color) => linesOf(plot, color).filter(({ length }) => length > 2));
    expect(drawn).toHaveLength(2);
    for (const points of drawn) {
      const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
      expect([...xs].sort((a, b) => a - b)).toEqual(xs);
      expect([...ys].sort((a, b) => b - a)).toEqual(ys);
      expect(Math.max(...xs)).toBeLessThanOrEqual(width);
    }
  });

  test('is the same each time', () => {
    expect(distributionPlot('Waits', 'ms', lines)).toBe(plot);
  });

  test('has the names of all lines in two columns, which do not overlap', () => {
    const names = ['echoperator', 'controller-runtime', 'controller-runtime-ryw', 'kube-rs', 'client-node'];
    const legend = distributionPlot(
      'Waits',
      'ms',
      names.map((name) => ({ name, quantiles: [1, 10] })),
    );
    const at = names.map((name) =>
      new RegExp(`transform="translate\\(([\\d.]+) ([\\d.]+)\\)"[^>]*>${name}<`).exec(legend)?.slice(1).map(Number),
    );
    const [first, second, third, fourth, fifth] = at as [number, number][];
    expect([second![1], fourth![1]]).toEqual([first![1], third![1]]);
    expect([third![0], fifth![0]]).toEqual([first![0], first![0]]);
    expect(second![0] - first![0]).toBeGreaterThan(190);
    expect(fifth![1] - third![1]).toBeGreaterThan(18);
  });
});
