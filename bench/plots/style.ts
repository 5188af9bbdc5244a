import type { EChartsOption } from 'echarts';
import { palette, shades } from '../../testkit/chart-picture.ts';

/** A picture is as wide as a phone, so that its text is legible there. */
export const width = 440;

export const font = { fontFamily: 'system-ui, sans-serif', fontSize: 14, color: shades.text.light } as const;

const [blue, orange, green, pink, yellow, violet, grey, red] = palette;

const colours: Readonly<Record<string, string>> = {
  echoperator: blue.light,
  'controller-runtime': orange.light,
  'controller-runtime-ryw': violet.light,
  'kube-rs': green.light,
  'client-node': pink.light,
  unrecorded: yellow.light,
  before: yellow.light,
  ceiling: grey.light,
};

/** The colour of a contender, the same in all plots. */
export const colourOf = (name: string): string => colours[name] ?? red.light;

export const axis = {
  axisLabel: font,
  axisLine: { lineStyle: { color: shades.quiet.light } },
  axisTick: { show: false },
  minorTick: { show: false },
  splitLine: { lineStyle: { color: shades.faint.light } },
} as const;

export const titled = (title: string): EChartsOption => ({
  title: { text: title, left: 14, top: 10, textStyle: { ...font, fontSize: 15, fontWeight: 600 } },
});

const legendRow = 24;
const inRow = 2;

/** Where a plot of lines has its parts: from top to bottom the title, the area, the name of x and the legend. */
export function lineLayout(names: readonly string[]) {
  const legendHeight = Math.ceil(names.length / inRow) * legendRow;
  return {
    height: 340 + legendHeight,
    grid: { left: 62, right: 36, top: 52, bottom: legendHeight + 66, outerBoundsMode: 'none' },
    // Every name has the same width, so that the names are columns and never overlap.
    legend: {
      left: 14,
      bottom: 8,
      width: width - 28,
      itemGap: 8,
      itemWidth: 18,
      itemHeight: 6,
      icon: 'roundRect',
      padding: 0,
      textStyle: { ...font, width: 172, lineHeight: legendRow - 8 },
      data: [...names] as string[],
    },
  } as const;
}

/** A number on an axis: 10,000. */
export const grouped = (value: number): string => Number(value.toPrecision(12)).toLocaleString('en-US');

/** The name of x, between the area and the legend. */
export const nameBelow = (name: string) =>
  ({ name, nameLocation: 'middle', nameGap: 30, nameTextStyle: { ...font, color: shades.quiet.light } }) as const;
