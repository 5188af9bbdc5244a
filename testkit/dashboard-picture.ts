import type { PanelQuery } from './dashboards.ts';
import type { RangeSeries } from './prometheus-server.ts';

const columns = 3;
const width = 400;
const height = 200;
const plot = { left: 52, top: 30, right: 12, bottom: 54 } as const;
const colours = ['#2f6fb3', '#d9822b', '#3a9a5b', '#b3403a', '#7d5ab5', '#8a6d3b', '#4aa3a2', '#c4588f'];

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** Fills a legend: `{{controller}} p99`. */
const legendOf = (legend: string, { metric }: RangeSeries): string =>
  legend.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? '');

/** Draws the panels of a dashboard with their data, as SVG. */
export function dashboardPicture(results: readonly (readonly [PanelQuery, readonly RangeSeries[]])[]): string {
  const panels = [...new Set(results.map(([{ panel }]) => panel))].map((title) =>
    results.filter(([{ panel }]) => panel === title),
  );
  const drawn = panels.map((queries, index) => {
    const [x, y] = [(index % columns) * width, Math.floor(index / columns) * height];
    return `<g transform="translate(${x} ${y})">${panelPicture(queries)}</g>`;
  });
  const size = [columns * width, Math.ceil(panels.length / columns) * height] as const;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.join(' ')}" width="${size[0]}" height="${size[1]}" font-family="sans-serif" font-size="10">`,
    '<title>A dashboard, drawn from a run of the operator</title>',
    `<rect width="100%" height="100%" fill="#fff"/>`,
    ...drawn,
    '</svg>\n',
  ].join('\n');
}

function panelPicture(queries: readonly (readonly [PanelQuery, readonly RangeSeries[]])[]): string {
  const [{ panel = '', unit = '' } = {}] = queries[0] ?? [];
  const lines = queries.flatMap(([{ legend }, series]) =>
    series.map((each) => ({
      name: legendOf(legend, each),
      points: each.values
        .map(([time, value]) => [time, Number(value)] as const)
        .filter(([, value]) => Number.isFinite(value)),
    })),
  );
  const highest = ({ points }: (typeof lines)[number]): number => Math.max(...points.map(([, value]) => value));
  const shown = lines.filter(({ points }) => points.length > 0).sort((one, other) => highest(other) - highest(one));
  const times = shown.flatMap(({ points }) => points.map(([time]) => time));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const most = Math.max(...shown.flatMap(({ points }) => points.map(([, value]) => value)), 0) || 1;
  const x = (time: number): number =>
    plot.left + ((time - from) / Math.max(1, to - from)) * (width - plot.left - plot.right);
  const y = (value: number): number => height - plot.bottom - (value / most) * (height - plot.top - plot.bottom);
  const grid = [0, 0.5, 1].map((part) => {
    const at = y(most * part).toFixed(1);
    return (
      `<line x1="${plot.left}" x2="${width - plot.right}" y1="${at}" y2="${at}" stroke="#ddd"/>` +
      `<text x="${plot.left - 4}" y="${at}" dy="3" text-anchor="end" fill="#555">${valueText(most * part, unit)}</text>`
    );
  });
  const curves = shown.map(({ points }, index) => {
    const path = points.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
    return `<polyline points="${path}" fill="none" stroke="${colours[index % colours.length]}" stroke-width="1.5"/>`;
  });
  // Leaves room for the names of the highest lines.
  const names = shown.slice(0, 6).map(({ name }, index) => {
    const [left, top] = [plot.left + (index % 2) * 172, height - plot.bottom + 16 + Math.floor(index / 2) * 13];
    const text = name.length > 30 ? `${name.slice(0, 29)}…` : name;
    return (
      `<rect x="${left - 12}" y="${top - 7}" width="8" height="8" fill="${colours[index % colours.length]}"/>` +
      `<text x="${left}" y="${top}" fill="#333">${escaped(text)}</text>`
    );
  });
  return [
    `<rect x="4" y="4" width="${width - 8}" height="${height - 8}" rx="3" fill="none" stroke="#ccc"/>`,
    `<text x="12" y="20" font-size="12" font-weight="bold" fill="#222">${escaped(panel)}</text>`,
    ...grid,
    ...curves,
    ...names,
  ].join('');
}

/** With three digits and the unit: `1.25 ms`, `84.5 MB`. */
function valueText(value: number, unit: string): string {
  const digits = (scaled: number): string => String(Number(scaled.toPrecision(3)));
  if (unit === 's') return value < 1 ? `${digits(value * 1000)} ms` : `${digits(value)} s`;
  if (unit === 'bytes') return `${digits(value / 1e6)} MB`;
  if (unit === 'percentunit') return `${digits(value * 100)} %`;
  return `${digits(value)}${unit === 'ops' || unit === 'reqps' ? '/s' : ''}`;
}
