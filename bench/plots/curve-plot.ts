import { colours, element, faint, legend, otherColour, picture, text } from './svg.ts';

/** The values of one contender. */
export interface Curve {
  readonly name: string;
  /** In ascending order of x. */
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

const width = 720;
const height = 320;
const area = { left: 64, right: width - 24, top: 44, bottom: height - 84 };

/** Plots values over a logarithmic x, from zero, one line per contender. @param below names x */
export function curvePlot(title: string, below: string, curves: readonly Curve[]): string {
  const all = curves.flatMap(({ points }) => points);
  const xs = [...new Set(all.map((point) => point.x))].sort((a, b) => a - b);
  const [least = 1] = xs;
  const most = Math.max(...xs, least * 2);
  const tick = tickFor(Math.max(...all.map((point) => point.y), 1e-9));
  const ticks = Array.from({ length: 6 }, (_, index) => index * tick);
  const x = (value: number): number =>
    area.left + (Math.log(value / least) / Math.log(most / least)) * (area.right - area.left);
  const y = (value: number): number => area.bottom - (value / (5 * tick)) * (area.bottom - area.top);
  return picture(width, height, title, [
    ...ticks.flatMap((value) => [
      element('path', { d: `M${area.left} ${y(value).toFixed(1)}H${area.right}`, stroke: faint }),
      text(area.left - 8, y(value) + 5, String(Number(value.toPrecision(3))), 'end'),
    ]),
    ...xs.map((value) => text(x(value), area.bottom + 18, String(value), 'middle')),
    text((area.left + area.right) / 2, area.bottom + 38, below, 'middle'),
    ...curves.map(({ name, points }) => {
      const path = points.map((point) => `${x(point.x).toFixed(1)},${y(point.y).toFixed(1)}`).join(' ');
      return element('polyline', {
        points: path,
        stroke: colours[name] ?? otherColour,
        'stroke-width': 2.5,
        fill: 'none',
      });
    }),
    ...curves.flatMap(({ name }, index) => legend(name, area.left + index * 160, height - 26)),
  ]);
}

/** Returns 1, 2 or 5 times a power of ten, of which five reach the value. */
export function tickFor(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most / 5));
  return [1, 2, 5, 10].map((factor) => factor * power).find((tick) => 5 * tick >= most) ?? 10 * power;
}
