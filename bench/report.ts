import { type Figures, type Measure, measures } from './measurements.ts';
import { type OperatorName, operatorNames } from './operators.ts';
import { type Estimate, median, medianWithInterval } from './statistics.ts';

/** One round: the figures of each operator that took part. */
export type Round = ReadonlyMap<OperatorName, Figures>;

interface Bar {
  readonly measure: Measure;
  readonly peer: OperatorName;
  /** What our figure divided by the peer's has to be. */
  readonly bound: { readonly atLeast: number } | { readonly atMost: number };
}

/** What the project asks of itself. A bar is met if the interval reaches it. */
const bars: readonly Bar[] = [
  { measure: 'echosPerSecond', peer: 'controller-runtime', bound: { atLeast: 1.25 } },
  { measure: 'burstP50', peer: 'controller-runtime', bound: { atMost: 0.3 } },
  { measure: 'cpuPerEcho', peer: 'controller-runtime', bound: { atMost: 0.6 } },
  { measure: 'steadyP99', peer: 'controller-runtime', bound: { atMost: 1.15 } },
  { measure: 'cachedMemory', peer: 'controller-runtime', bound: { atMost: 0.8 } },
  { measure: 'start', peer: 'controller-runtime', bound: { atMost: 1 } },
  { measure: 'echosPerSecond', peer: 'kube-rs', bound: { atLeast: 0.97 } },
  { measure: 'cpuPerEcho', peer: 'kube-rs', bound: { atMost: 1.2 } },
];

/** Resident memory of our operator at rest, MB. */
const idleMemoryBar = 70;

/** The medians of every figure, and the bars, as Markdown. */
export function report(rounds: readonly Round[]): string {
  return [...medianTable(rounds), '', ...ratioTable(rounds), '', ...barTable(rounds)].join('\n');
}

function medianTable(rounds: readonly Round[]): readonly string[] {
  const rows = measureNames().map((measure) => {
    const cells = operatorNames.map((operator) => {
      const values = valuesOf(rounds, operator, measure);
      return values.length === 0 ? '' : median(values).toFixed(measures[measure].digits);
    });
    return [measures[measure].title, ...cells];
  });
  return table(['medians', ...operatorNames], rows);
}

function ratioTable(rounds: readonly Round[]): readonly string[] {
  const peers = operatorNames.slice(1);
  const rows = measureNames().map((measure) => {
    const cells = peers.map((peer) => {
      const ratios = ratiosOf(rounds, peer, measure);
      return ratios.length === 0 ? '' : withInterval(medianWithInterval(ratios));
    });
    return [measures[measure].title, ...cells];
  });
  return table([`${operatorNames[0]} ÷`, ...peers], rows);
}

function barTable(rounds: readonly Round[]): readonly string[] {
  const rows = bars.flatMap(({ measure, peer, bound }) => {
    const ratios = ratiosOf(rounds, peer, measure);
    if (ratios.length === 0) return [];
    const estimate = medianWithInterval(ratios);
    const met = 'atLeast' in bound ? estimate.high >= bound.atLeast : estimate.low <= bound.atMost;
    const asked = 'atLeast' in bound ? `≥ ${bound.atLeast}` : `≤ ${bound.atMost}`;
    return [[`${measures[measure].title} ÷ ${peer}`, asked, withInterval(estimate), met ? 'met' : 'missed']];
  });
  const idle = valuesOf(rounds, 'echoperator', 'idleMemory');
  if (idle.length > 0) {
    const estimate = medianWithInterval(idle);
    const met = estimate.low <= idleMemoryBar;
    rows.push([measures.idleMemory.title, `≤ ${idleMemoryBar}`, withInterval(estimate, 0), met ? 'met' : 'missed']);
  }
  return table(['bar', 'asked', 'measured', ''], rows);
}

const measureNames = (): readonly Measure[] => Object.keys(measures) as Measure[];

function valuesOf(rounds: readonly Round[], operator: OperatorName, measure: Measure): readonly number[] {
  return rounds.flatMap((round) => round.get(operator)?.[measure] ?? []);
}

/** Our figure divided by the peer's, of each round that has both. */
function ratiosOf(rounds: readonly Round[], peer: OperatorName, measure: Measure): readonly number[] {
  return rounds.flatMap((round) => {
    const [ours, theirs] = [round.get('echoperator')?.[measure], round.get(peer)?.[measure]];
    return ours === undefined || theirs === undefined || theirs === 0 ? [] : [ours / theirs];
  });
}

const withInterval = ({ median, low, high }: Estimate, digits = 2): string =>
  `${median.toFixed(digits)} [${low.toFixed(digits)}, ${high.toFixed(digits)}]`;

/** The cells of a column have one width, for those who read it in a terminal. */
function table(header: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const widths = header.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(' | ')} |`;
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(header), line(rule), ...rows.map(line)];
}
