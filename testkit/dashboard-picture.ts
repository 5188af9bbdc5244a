import type { CustomSeriesRenderItem, EChartsOption } from 'echarts';
import { chartElements, escaped, palette, picture, type Size, shades } from './chart-picture.ts';
import type { PanelQuery } from './dashboards.ts';
import type { RangeSeries } from './prometheus-server.ts';

type Result = readonly [PanelQuery, readonly RangeSeries[]];

interface Line {
  readonly name: string;
  readonly field: PanelQuery['field'];
  readonly points: readonly (readonly [time: number, value: number])[];
}

// As Grafana on a phone: small panels side by side, the others below each other.
const width = 440;
const gap = 8;
const heights = { stat: 92, 'state-timeline': 120, timeseries: 236 } as const;
const rowHeight = 32;
const mostNames = 6;

const font = { fontFamily: 'system-ui, sans-serif', fontSize: 13, color: shades.text.light } as const;
const colors: Readonly<Record<string, string>> = {
  green: shades.good.light,
  yellow: palette[1].light,
  red: shades.bad.light,
  blue: palette[0].light,
};

/**
 * Draws a dashboard with its data, as SVG: the panels that a reader sees first, and the titles of the folded rows.
 *
 * @param results the results of all queries of the dashboard, in their order.
 */
export function dashboardPicture(title: string, results: readonly Result[]): string {
  const drawn: string[] = [];
  let y = gap;
  for (const [row, ofRow] of Map.groupBy(results, ([{ row }]) => row)) {
    const panels = [...Map.groupBy(ofRow, ([{ panel }]) => panel).values()];
    const isFolded = ofRow.some(([query]) => query.isFolded);
    drawn.push(text(gap + 4, y + 21, `${isFolded ? '▸' : '▾'} ${row}`, { size: 15, weight: 600 }));
    if (isFolded) drawn.push(text(width - gap - 4, y + 21, `${panels.length} panels`, { anchor: 'end', quiet: true }));
    y += rowHeight;
    if (isFolded) continue;
    let x = gap;
    for (const panel of panels) {
      const type = panel[0]?.[0].type ?? 'timeseries';
      const size = { width: type === 'stat' ? (width - 3 * gap) / 2 : width - 2 * gap, height: heights[type] };
      drawn.push(`<g transform="translate(${x} ${y})">${panelElements(panel, size, `clip${drawn.length}`)}</g>`);
      x += size.width + gap;
      if (x + size.width > width) [x, y] = [gap, y + size.height + gap];
    }
    if (x > gap) y += heights.stat + gap;
  }
  return picture(title, { width, height: y + gap }, drawn.join('\n'));
}

function panelElements(results: readonly Result[], size: Size, id: string): string {
  const [first] = results;
  if (first === undefined) return '';
  const [{ panel, type, showsName }] = first;
  const lines = results.flatMap(([{ legend, field }, series]) =>
    series.map((each) => ({
      name: legendOf(legend, each),
      field,
      points: each.values
        .map(([time, value]) => [time, Number(value)] as const)
        .filter(([, value]) => Number.isFinite(value)),
    })),
  );
  const shown = lines.filter(({ points }) => points.length > 0);
  const border = `<rect x="0.5" y="0.5" width="${size.width - 1}" height="${size.height - 1}" rx="4" fill="none" stroke="${shades.faint.light}"/>`;
  const contents = {
    stat: () => statElements(shown, showsName, size),
    'state-timeline': () => chartElements(timelineOption(shown), size, id),
    timeseries: () => chartElements(graphOption(shown), size, id),
  }[type]();
  // The longest title of a small panel takes two lines.
  const [upper = '', lower = ''] = type === 'stat' ? inTwo(panel) : [panel];
  return [border, text(10, 20, upper, { weight: 600 }), text(10, 36, lower, { weight: 600 }), contents].join('\n');
}

function inTwo(title: string): readonly string[] {
  if (title.length <= 24) return [title];
  const at = title.lastIndexOf(' ', 24);
  return [title.slice(0, at), title.slice(at + 1)];
}

/** The last value of each series: a large one, or up to three small ones. */
function statElements(lines: readonly Line[], showsName: boolean, size: Size): string {
  const values = lines
    .filter(({ points }) => points.at(-1)?.[0] === Math.max(...lines.map(({ points }) => points.at(-1)?.[0] ?? 0)))
    .map(({ name, field, points }) => {
      const value = points.at(-1)?.[1] ?? 0;
      const state = stateOf(field, value);
      return { name, shown: showsName ? name : (state?.text ?? valueText(value, field.unit)), color: state?.color };
    });
  const [single] = values;
  if (single !== undefined && values.length === 1)
    return text(size.width / 2, 68, single.shown, {
      size: single.shown.length > 10 ? 20 : 24,
      weight: 600,
      anchor: 'middle',
      color: single.color,
    });
  return values
    .slice(0, 3)
    .flatMap(({ name, shown, color }, index) => [
      text(10, size.height - 12 - (Math.min(values.length, 3) - 1 - index) * 19, name),
      text(size.width - 10, size.height - 12 - (Math.min(values.length, 3) - 1 - index) * 19, shown, {
        anchor: 'end',
        weight: 600,
        color,
      }),
    ])
    .join('\n');
}

/** The text and the colour that the dashboard gives a value; only thresholds and mappings give one. */
function stateOf({ mappings = [], thresholds }: PanelQuery['field'], value: number) {
  const mapped = mappings.map(({ options }) => options[String(value)]).find((found) => found !== undefined);
  if (mapped !== undefined) return { text: mapped.text, color: colors[mapped.color] };
  const step = thresholds?.steps.findLast((each) => each.value === null || value >= each.value);
  return step && { text: undefined, color: colors[step.color] };
}

const inPanel = { left: 64, right: 36, top: 34, outerBoundsMode: 'none' } as const;
const quietAxis = { axisTick: { show: false }, axisLine: { lineStyle: { color: shades.faint.light } } } as const;
const timeAxis = {
  type: 'time',
  ...quietAxis,
  axisLabel: { ...font, color: shades.quiet.light, formatter: '{HH}:{mm}:{ss}', hideOverlap: true },
  splitNumber: 3,
} as const;

function graphOption(lines: readonly Line[]): EChartsOption {
  const [{ field } = { field: {} as PanelQuery['field'] }] = lines;
  const most = roundedUp(Math.max(...lines.flatMap(({ points }) => points.map(([, value]) => value)), 0) || 1);
  const highest = ({ points }: Line): number => Math.max(...points.map(([, value]) => value));
  const shown = [...lines].sort((one, other) => highest(other) - highest(one));
  const named = shown.slice(0, mostNames).map(({ name }) => name);
  return {
    useUTC: true,
    grid: { ...inPanel, bottom: 34 + Math.ceil(named.length / 2) * 20 },
    legend: {
      left: 12,
      bottom: 8,
      width: width - 40,
      padding: 0,
      itemGap: 6,
      itemWidth: 14,
      itemHeight: 5,
      icon: 'roundRect',
      data: named,
      // Names of one width stand in columns.
      textStyle: { ...font, fontSize: 12, width: 166, lineHeight: 14 },
      formatter: (name) => (name.length > 25 ? `${name.slice(0, 24)}…` : name),
    },
    xAxis: timeAxis,
    yAxis: {
      type: 'value',
      min: 0,
      max: most,
      interval: most / 2,
      splitLine: { lineStyle: { color: shades.faint.light } },
      axisLabel: {
        ...font,
        fontSize: 12,
        color: shades.quiet.light,
        formatter: (value: number) => (value === 0 ? '0' : valueText(value, field.unit)),
      },
    },
    series: shown.map(({ name, points }, index) => ({
      name,
      type: 'line',
      showSymbol: false,
      lineStyle: { width: 1.75 },
      color: palette[index % palette.length]?.light ?? shades.text.light,
      data: points.map(([time, value]) => [time * 1000, value]),
    })),
  };
}

/** The least of 1, 2, 3, 4, 5, 6, 8 and 10 times a power of ten that is not less: its half is a short number too. */
function roundedUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 3, 4, 5, 6, 8].find((factor) => factor * power >= value) ?? 10);
}

function timelineOption(lines: readonly Line[]): EChartsOption {
  // A segment per state that does not change.
  const segments = lines.flatMap(({ field, points }, row) =>
    points.flatMap(([time, value], index) => {
      if (points[index - 1]?.[1] === value) return [];
      const end = points.slice(index).find(([, later]) => later !== value)?.[0] ?? points.at(-1)?.[0] ?? time;
      return [{ row, from: time * 1000, to: end * 1000, state: stateOf(field, value) }];
    }),
  );
  const renderItem: CustomSeriesRenderItem = ({ dataIndex }, api) => {
    const { row, from, to, state } = segments[dataIndex] ?? { row: 0, from: 0, to: 0, state: undefined };
    const [[left = 0, middle = 0], [right = 0]] = [api.coord([from, row]), api.coord([to, row])];
    const height = Math.min(22, 50 / lines.length);
    const shape = { x: left, y: middle - height / 2, width: Math.max(1, right - left), height, r: 3 };
    return {
      type: 'rect',
      shape,
      style: { fill: state?.color ?? shades.quiet.light },
      textContent: {
        type: 'text',
        style: {
          text: right - left > 60 ? (state?.text ?? '') : '',
          fill: shades.background.light,
          font: '600 13px system-ui, sans-serif',
        },
      },
      textConfig: { position: 'inside' },
    };
  };
  return {
    useUTC: true,
    grid: { ...inPanel, left: 116, bottom: 28 },
    xAxis: { ...timeAxis, min: 'dataMin', max: 'dataMax' },
    yAxis: {
      type: 'category',
      inverse: true,
      ...quietAxis,
      axisLabel: { ...font, interval: 0, width: 100, overflow: 'truncate' },
      data: lines.map(({ name }) => name),
    },
    series: [
      {
        type: 'custom',
        renderItem,
        encode: { x: [1, 2], y: 0 },
        data: segments.map(({ row, from, to }) => [row, from, to]),
      },
    ],
  };
}

interface TextOptions {
  readonly size?: number;
  readonly weight?: number;
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly quiet?: true;
  readonly color?: string | undefined;
}

function text(x: number, y: number, shown: string, options: TextOptions = {}): string {
  const { size = 13, weight = 400, anchor = 'start', quiet = false } = options;
  const { color = (quiet ? shades.quiet : shades.text).light } = options;
  if (shown === '') return '';
  return `<text x="${x}" y="${y}" font-family="system-ui, sans-serif" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" fill="${color}">${escaped(shown)}</text>`;
}

/** Fills a legend: `{{controller}} p99`. */
const legendOf = (legend: string, { metric }: RangeSeries): string =>
  legend.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? '');

/** With three digits and the unit: `1.25 ms`, `84.5 MB`. */
function valueText(value: number, unit = ''): string {
  const digits = (scaled: number): string => String(Number(scaled.toPrecision(3)));
  if (unit === 's') return value < 1 ? `${digits(value * 1000)} ms` : `${digits(value)} s`;
  if (unit === 'bytes') return `${digits(value / 1e6)} MB`;
  if (unit === 'percentunit') return `${digits(value * 100)} %`;
  return `${digits(value)}${unit === 'ops' || unit === 'reqps' ? '/s' : ''}`;
}
