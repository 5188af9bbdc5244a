/** The tables of the terminal and of the page. */
import {
  type Comparison,
  comparisons,
  curve,
  figure,
  judgedRounds,
  measureNames,
  present,
  ratio,
  withInterval,
} from './comparison.ts';
import { type Measure, measures } from './measurements.ts';
import type { Contender, Results } from './results.ts';

/** Returns all tables as Markdown with aligned columns. */
export const report = (results: Results): string =>
  [
    figureTable(results),
    ratioTable(results),
    ...curveMeasures.map((measure) => curveTable(results, measure)),
    headlineTable(comparisons(results)),
  ]
    .filter((lines) => lines !== '')
    .join('\n\n');

/** Returns the median of every figure with its interval. */
export function figureTable(results: Results): string {
  const rounds = judgedRounds(results);
  const columns = present(rounds);
  return table(
    ['median [interval]', ...columns],
    measureNames.map((measure) => [
      measures[measure].title,
      ...columns.map((contender) => {
        const estimate = figure(rounds, contender, measure);
        return estimate === undefined ? '' : withInterval(estimate, measures[measure].digits);
      }),
    ]),
  );
}

/** Returns our figures divided by the peers'. */
export function ratioTable(results: Results): string {
  const rounds = judgedRounds(results);
  const [ours, ...others] = present(rounds);
  if (ours !== 'echoperator' || others.length === 0) return '';
  return table(
    [`${ours} ÷`, ...others],
    measureNames.map((measure) => [
      measures[measure].title,
      ...others.map((peer) => {
        const estimate = ratio(rounds, peer, measure);
        return estimate === undefined ? '' : withInterval(estimate, 2);
      }),
    ]),
  );
}

/** Returns some of our figures, a peer's, and their ratios. */
export const besideTable = ({ rounds }: Results, peer: Contender, names: readonly Measure[]): string =>
  table(
    ['median [interval]', 'echoperator', peer, 'ratio'],
    names.map((measure) => {
      const { title, digits } = measures[measure];
      const [ours, theirs] = [figure(rounds, 'echoperator', measure), figure(rounds, peer, measure)];
      const quotient = ratio(rounds, peer, measure);
      return [
        title,
        ours === undefined ? '' : withInterval(ours, digits),
        theirs === undefined ? '' : withInterval(theirs, digits),
        quotient === undefined ? '' : withInterval(quotient, 2),
      ];
    }),
  );

/** Returns some of our figures and those of several peers. */
export const besidesTable = ({ rounds }: Results, peers: readonly Contender[], names: readonly Measure[]): string =>
  table(
    ['median [interval]', 'echoperator', ...peers],
    names.map((measure) => [
      measures[measure].title,
      ...(['echoperator', ...peers] as const).map((name) => {
        const estimate = figure(rounds, name, measure);
        return estimate === undefined ? '' : withInterval(estimate, measures[measure].digits);
      }),
    ]),
  );

/** Returns the comparisons that the page shows first. */
export const headlineTable = (found: readonly Comparison[]): string =>
  table(
    ['ratio', 'median [interval]', 'rounds', 'coverage', 'standing'],
    found.map(({ title, estimate, standing }) => [
      title,
      withInterval(estimate, 2),
      String(estimate.count),
      `${(estimate.coverage * 100).toFixed(1)} %`,
      standing,
    ]),
  );

/** Returns why ours is behind, as a list; empty if nothing is known. */
export const reasonList = (found: readonly Comparison[]): string => {
  const behind = found.filter(({ standing, why }) => standing === 'behind' && why !== undefined);
  return [...Map.groupBy(behind, ({ why }) => why)]
    .map(([why, of]) => `- ${of.map(({ title }) => title).join('; ')}: ${why}`)
    .join('\n');
};

/** The measures that depend on the number of cached objects. */
export const curveMeasures = [
  'eventCpu',
  'cachedAnonymous',
  'start',
  'longestPause',
] as const satisfies readonly Measure[];

/** Returns a measure with each number of cached objects. */
export function curveTable(results: Results, measure: Measure): string {
  const points = curve(results, measure);
  const columns = present(results.rounds).filter((name) =>
    points.some(({ estimates }) => estimates[name] !== undefined),
  );
  const { title, digits } = measures[measure];
  return table(
    [title, ...columns],
    points.map(({ objects, estimates }) => [
      `${objects} objects`,
      ...columns.map((name) => {
        const estimate = estimates[name];
        return estimate === undefined ? '' : withInterval(estimate, digits);
      }),
    ]),
  );
}

/** Formats a table without empty rows. The cells of a column have the same width, for the terminal. */
export function table(header: readonly string[], allRows: readonly (readonly string[])[]): string {
  const rows = allRows.filter(([, ...cells]) => cells.some((cell) => cell !== ''));
  if (rows.length === 0) return '';
  const widths = header.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string => {
    const padded = cells.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
    );
    return `| ${padded.join(' | ')} |`;
  };
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(header), `| ${rule.join(' | ')} |`, ...rows.map(line)].join('\n');
}
