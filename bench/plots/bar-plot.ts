import type { CustomSeriesRenderItem } from 'echarts';
import { chartPicture, shades } from '../../testkit/chart-picture.ts';
import type { Estimate } from '../statistics.ts';
import { axis, colourOf, font, titled, width } from './style.ts';

export interface Bar {
  readonly name: string;
  readonly estimate: Estimate;
}

const rowHeight = 32;
const grid = { left: 178, right: 76, top: 44, bottom: 8, outerBoundsMode: 'none' } as const;

/** Horizontal bars from zero, each with its value and a whisker for its interval. @param digits of the values */
export function barPlot(title: string, bars: readonly Bar[], digits: number): string {
  const height = grid.top + bars.length * rowHeight + grid.bottom;
  // The page's tables round with `toFixed`.
  const fixed = new Intl.NumberFormat('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const whisker: CustomSeriesRenderItem = (_, api) => {
    const [row, low, high] = [0, 1, 2].map((dimension) => Number(api.value(dimension)));
    const [from = 0, y = 0] = api.coord([low, row]);
    const [to = 0] = api.coord([high, row]);
    const style = { stroke: shades.text.light, lineWidth: 1.5 };
    const line = (x1: number, y1: number, x2: number, y2: number) =>
      ({ type: 'line', shape: { x1, y1, x2, y2 }, style }) as const;
    const text = fixed.format(Number((bars[row ?? 0]?.estimate.median ?? 0).toFixed(digits)));
    return {
      type: 'group',
      children: [
        line(from, y, to, y),
        line(from, y - 5, from, y + 5),
        line(to, y - 5, to, y + 5),
        {
          type: 'text',
          x: to + 8,
          y,
          style: {
            text,
            verticalAlign: 'middle',
            fill: shades.text.light,
            font: `${font.fontSize}px ${font.fontFamily}`,
          },
        },
      ],
    };
  };
  return chartPicture(
    title,
    { width, height },
    {
      ...titled(title),
      grid,
      xAxis: {
        type: 'value',
        min: 0,
        max: Math.max(...bars.map(({ estimate }) => estimate.high), Number.MIN_VALUE),
        show: false,
      },
      yAxis: {
        ...axis,
        type: 'category',
        inverse: true,
        data: bars.map(({ name }) => name),
        axisLabel: { ...font, interval: 0, margin: 10 },
      },
      series: [
        {
          type: 'bar',
          barWidth: 18,
          data: bars.map(({ name, estimate }) => ({ value: estimate.median, itemStyle: { color: colourOf(name) } })),
        },
        {
          type: 'custom',
          z: 3,
          encode: { x: [1, 2], y: 0 },
          clip: false,
          data: bars.map(({ estimate: { low, high } }, row) => [row, low, high]),
          renderItem: whisker,
        },
      ],
    },
  );
}
