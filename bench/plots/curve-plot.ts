import { chartPicture } from '../../testkit/chart-picture.ts';
import { axis, colourOf, font, grouped, lineLayout, nameBelow, titled, width } from './style.ts';

/** The values of one contender. */
export interface Curve {
  readonly name: string;
  /** In ascending order of x. */
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

/** Plots values over a logarithmic x, from zero, one line per contender. @param below names x */
export function curvePlot(title: string, below: string, curves: readonly Curve[]): string {
  const xs = [...new Set(curves.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b);
  const [least = 1] = xs;
  const { height, grid, legend } = lineLayout(curves.map(({ name }) => name));
  return chartPicture(
    title,
    { width, height },
    {
      ...titled(title),
      grid,
      legend,
      xAxis: {
        ...axis,
        ...nameBelow(below),
        type: 'log',
        min: least,
        max: Math.max(...xs, least * 2),
        axisLabel: { ...font, customValues: xs, formatter: grouped },
        splitLine: { show: false },
      },
      yAxis: { ...axis, type: 'value', min: 0, axisLabel: { ...font, formatter: grouped } },
      series: curves.map(({ name, points }) => ({
        name,
        type: 'line',
        symbolSize: 6,
        symbol: 'circle',
        lineStyle: { width: 2.5 },
        color: colourOf(name),
        data: points.map(({ x, y }) => [x, y]),
      })),
    },
  );
}
