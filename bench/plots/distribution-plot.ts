import { colours, element, faint, legend, otherColour, picture, text } from './svg.ts';

export interface Line {
  readonly name: string;
  /** The quantiles from 0 to 100 % in even steps. */
  readonly quantiles: readonly number[];
}

const width = 720;
const height = 400;
const area = { left: 64, right: width - 24, top: 44, bottom: height - 84 };

/** Plots the share of values below each value on a logarithmic scale, one line per set of values. */
export function distributionPlot(title: string, unit: string, lines: readonly Line[]): string {
  const all = lines.flatMap(({ quantiles }) => quantiles).filter((value) => value > 0);
  const ticks = ticksAround(Math.min(...all), Math.max(...all));
  const [least = 1] = ticks;
  const most = ticks.at(-1) ?? 10;
  const x = (value: number): number => {
    const part = Math.log(Math.max(value, least) / least) / Math.log(most / least);
    return area.left + part * (area.right - area.left);
  };
  const y = (part: number): number => area.bottom - part * (area.bottom - area.top);
  return picture(width, height, title, [
    ...ticks.flatMap((tick) => [
      element('path', { d: `M${x(tick).toFixed(1)} ${area.top}V${area.bottom}`, stroke: faint }),
      text(x(tick), area.bottom + 18, String(tick), 'middle'),
    ]),
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((part) => [
      element('path', { d: `M${area.left} ${y(part).toFixed(1)}H${area.right}`, stroke: faint }),
      text(area.left - 8, y(part) + 5, `${part * 100} %`, 'end'),
    ]),
    text((area.left + area.right) / 2, area.bottom + 38, unit, 'middle'),
    ...lines.map(({ name, quantiles }) => {
      const points = quantiles.map(
        (value, step) => `${x(value).toFixed(1)},${y(step / (quantiles.length - 1)).toFixed(1)}`,
      );
      const stroke = colours[name] ?? otherColour;
      return element('polyline', { points: points.join(' '), stroke, 'stroke-width': 2.5, fill: 'none' });
    }),
    ...lines.flatMap(({ name }, index) => legend(name, area.left + index * 160, height - 26)),
  ]);
}

/** 1, 2 and 5 times each power of ten, from the last one below to the first one above. */
export function ticksAround(low: number, high: number): readonly number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); ; power++) {
    for (const factor of [1, 2, 5]) {
      // Not a product of floats: 0.3 is written 0.3.
      const tick = Number(`${factor}e${power}`);
      if (tick <= low) ticks.length = 0;
      ticks.push(tick);
      if (tick >= high && ticks.length > 1) return ticks;
    }
  }
}
