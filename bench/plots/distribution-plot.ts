import { chartPicture } from '../../testkit/chart-picture.ts';
import { axis, colourOf, font, grouped, lineLayout, nameBelow, titled, width } from './style.ts';

export interface Line {
  readonly name: string;
  /** The quantiles from 0 to 100 % in even steps. */
  readonly quantiles: readonly number[];
}

/** Plots the share of values below each value on a logarithmic scale, one line per set of values. */
export function distributionPlot(title: string, unit: string, lines: readonly Line[]): string {
  const above = lines.flatMap(({ quantiles }) => quantiles).filter((value) => value > 0);
  const [least, most] = [Math.min(...above), Math.max(...above)];
  const { height, grid, legend } = lineLayout(lines.map(({ name }) => name));
  return chartPicture(
    title,
    { width, height },
    {
      ...titled(title),
      grid,
      legend,
      // From one power of ten to another: each of them has its line.
      xAxis: {
        ...axis,
        ...nameBelow(unit),
        type: 'log',
        min: 10 ** Math.floor(Math.log10(least)),
        max: 10 ** Math.max(Math.ceil(Math.log10(most)), Math.floor(Math.log10(least)) + 1),
        axisLabel: { ...font, formatter: grouped },
      },
      yAxis: {
        ...axis,
        type: 'value',
        min: 0,
        max: 1,
        interval: 0.25,
        axisLabel: { ...font, formatter: (value: number) => `${value * 100} %` },
      },
      series: lines.map(({ name, quantiles }) => ({
        name,
        type: 'line',
        showSymbol: false,
        lineStyle: { width: 2.5 },
        color: colourOf(name),
        data: quantiles.map((value, step) => [Math.max(value, least), step / (quantiles.length - 1)]),
      })),
    },
  );
}
