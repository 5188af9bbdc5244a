import type { Estimate } from '../statistics.ts';
import { colours, element, otherColour, picture, text } from './svg.ts';

export interface Bar {
  readonly name: string;
  readonly estimate: Estimate;
}

const width = 720;
const left = 150;
const right = 110;
const top = 44;
const rowHeight = 32;
const barHeight = 20;

/** Horizontal bars from zero, each with its value and a whisker for its interval. @param digits of the values */
export function barPlot(title: string, bars: readonly Bar[], digits: number): string {
  const largest = Math.max(...bars.map(({ estimate }) => estimate.high), Number.MIN_VALUE);
  const scale = (value: number): number => (value / largest) * (width - left - right);
  const rows = bars.flatMap(({ name, estimate: { median, low, high } }, index) => {
    const y = top + index * rowHeight;
    const middle = y + barHeight / 2;
    const fill = colours[name] ?? otherColour;
    return [
      text(left - 10, middle + 5, name, 'end'),
      element('rect', { x: left, y, width: scale(median), height: barHeight, fill }),
      whisker(left + scale(low), left + scale(high), middle),
      text(left + scale(high) + 10, middle + 5, median.toFixed(digits)),
    ];
  });
  return picture(width, top + bars.length * rowHeight + 8, title, rows);
}

function whisker(from: number, to: number, y: number): string {
  const d = `M${from.toFixed(1)} ${y - 5}v10M${from.toFixed(1)} ${y}H${to.toFixed(1)}M${to.toFixed(1)} ${y - 5}v10`;
  return element('path', { d, stroke: '#24292f', 'stroke-width': 1.5, fill: 'none' });
}
