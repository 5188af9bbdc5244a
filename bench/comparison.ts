/** Compares the figures of all rounds: medians, ratios, and the project's own bars. */
import { type Measure, measures } from './measurements.ts';
import type { Contender, Results, Round } from './results.ts';
import { type Estimate, medianWithInterval } from './statistics.ts';

/** The columns of a table. Ours is first, because ratios are ours divided by another's. */
export const contenders: readonly Contender[] = [
  'echoperator',
  'controller-runtime',
  'kube-rs',
  'client-node',
  'unrecorded',
  'before',
  'ceiling',
];

export const measureNames = Object.keys(measures) as readonly Measure[];

interface Bar {
  readonly measure: Measure;
  readonly peer: Contender;
  /** The bound of our figure divided by the peer's. */
  readonly bound: { readonly atLeast: number } | { readonly atMost: number };
}

/** The project's goals. A bar is met if the median meets it. */
const bars: readonly Bar[] = [
  { measure: 'echosPerSecond', peer: 'controller-runtime', bound: { atLeast: 1.25 } },
  { measure: 'burstP50', peer: 'controller-runtime', bound: { atMost: 0.3 } },
  { measure: 'cpuPerEcho', peer: 'controller-runtime', bound: { atMost: 0.6 } },
  { measure: 'steadyP99', peer: 'controller-runtime', bound: { atMost: 1.15 } },
  { measure: 'cachedMemory', peer: 'controller-runtime', bound: { atMost: 0.8 } },
  { measure: 'start', peer: 'controller-runtime', bound: { atMost: 1 } },
  { measure: 'coldHandover', peer: 'controller-runtime', bound: { atMost: 0.25 } },
  { measure: 'warmHandover', peer: 'controller-runtime', bound: { atMost: 0.25 } },
  { measure: 'coldCrash', peer: 'controller-runtime', bound: { atMost: 0.3 } },
  { measure: 'warmCrash', peer: 'controller-runtime', bound: { atMost: 0.3 } },
  { measure: 'coldIdleRequests', peer: 'controller-runtime', bound: { atMost: 1 } },
  { measure: 'warmIdleRequests', peer: 'controller-runtime', bound: { atMost: 1 } },
  { measure: 'echosPerSecond', peer: 'kube-rs', bound: { atLeast: 0.97 } },
  { measure: 'cpuPerEcho', peer: 'kube-rs', bound: { atMost: 1.2 } },
  { measure: 'cpuPerEcho', peer: 'unrecorded', bound: { atMost: 1.02 } },
  // 4 MB of about 110.
  { measure: 'cachedMemory', peer: 'unrecorded', bound: { atMost: 1.04 } },
  { measure: 'rowsSeconds', peer: 'ceiling', bound: { atMost: 1.2 } },
];

/** The bounds of our own figures. */
const ownBars: readonly { readonly measure: Measure; readonly atMost: number }[] = [
  { measure: 'idleMemory', atMost: 70 },
  { measure: 'rowStatements', atMost: 200 },
  { measure: 'rowsToCopy', atMost: 5 },
];

/** Whether the median meets a bar. */
export interface Verdict {
  readonly title: string;
  readonly asked: string;
  readonly estimate: Estimate;
  readonly digits: number;
  readonly met: boolean;
  /** Whether the end of the interval that is worse for us meets it too. */
  readonly metAtWorseEnd: boolean;
}

type Rounds = readonly Round[];

/** Compares with the bars. A round in which our operator failed counts as the worst possible figure. */
export function verdicts(results: Results): readonly Verdict[] {
  const { rounds } = results;
  const found: Verdict[] = [];
  for (const { measure, peer, bound } of bars) {
    const worst = 'atLeast' in bound ? 0 : Number.POSITIVE_INFINITY;
    const estimate = estimateOf(ratios(rounds, peer, measure), Array(losses(results, measure)).fill(worst));
    if (estimate === undefined) continue;
    found.push({
      title: `${measures[measure].title} ÷ ${peer}`,
      asked: 'atLeast' in bound ? `≥ ${bound.atLeast}` : `≤ ${bound.atMost}`,
      estimate,
      digits: 2,
      ...('atLeast' in bound
        ? { met: estimate.median >= bound.atLeast, metAtWorseEnd: estimate.low >= bound.atLeast }
        : { met: estimate.median <= bound.atMost, metAtWorseEnd: estimate.high <= bound.atMost }),
    });
  }
  for (const { measure, atMost } of ownBars) {
    const lost = Array(losses(results, measure)).fill(Number.POSITIVE_INFINITY);
    const estimate = estimateOf(figures(rounds, 'echoperator', measure), lost);
    if (estimate === undefined) continue;
    const { title, digits } = measures[measure];
    const verdict = { met: estimate.median <= atMost, metAtWorseEnd: estimate.high <= atMost };
    found.push({ title, asked: `≤ ${atMost}`, estimate, digits, ...verdict });
  }
  return found;
}

/** Returns the median of a figure over all rounds; undefined if no round has it. */
export function figure(rounds: Rounds, contender: Contender, measure: Measure): Estimate | undefined {
  return estimateOf(figures(rounds, contender, measure));
}

const figures = (rounds: Rounds, contender: Contender, measure: Measure): readonly number[] =>
  rounds.flatMap(({ turns }) => turns[contender]?.figures[measure] ?? []);

/** Returns the median of our figure divided by the peer's, over all rounds that have both. */
export function ratio(rounds: Rounds, peer: Contender, measure: Measure): Estimate | undefined {
  return estimateOf(ratios(rounds, peer, measure));
}

const ratios = (rounds: Rounds, peer: Contender, measure: Measure): readonly number[] =>
  rounds.flatMap(({ turns }) => {
    const [ours, theirs] = [turns.echoperator?.figures[measure], turns[peer]?.figures[measure]];
    return ours === undefined || theirs === undefined || theirs === 0 ? [] : [ours / theirs];
  });

/** In how many rounds of the measure's scenarios our operator failed. */
function losses({ rounds, voidRounds }: Results, measure: Measure): number {
  const measuring = rounds.filter(({ turns }) => turns.echoperator?.figures[measure] !== undefined);
  const scenarios = new Set<string>(measuring.map(({ scenario }) => scenario));
  return voidRounds.filter(({ failed, scenario }) => failed === 'echoperator' && scenarios.has(scenario)).length;
}

/** The cost of an event with a number of cached objects. */
export interface EventCostBySize {
  /** The number of cached Echos, and of cached Jobs. */
  readonly size: number;
  /** Microseconds of CPU. */
  readonly microseconds: Estimate;
  /** Divided by the cost with the fewest objects. */
  readonly ratio: number;
}

export function eventCostBySize({ eventCosts }: Results): readonly EventCostBySize[] {
  const sizes = [...new Set(eventCosts.map(({ size }) => size))].sort((a, b) => a - b);
  const costs = sizes.flatMap((size) => {
    const microseconds = estimateOf(
      eventCosts.filter((cost) => cost.size === size).map((cost) => cost.cpuPerEvent * 1000),
    );
    return microseconds === undefined ? [] : [{ size, microseconds }];
  });
  const [fewest] = costs;
  return costs.map((cost) => ({
    ...cost,
    ratio: cost.microseconds.median / (fewest?.microseconds.median ?? Number.NaN),
  }));
}

/** Returns the contenders that took part in at least one round. */
export const present = (rounds: Rounds): readonly Contender[] =>
  contenders.filter((contender) => rounds.some(({ turns }) => turns[contender] !== undefined));

/** @param lost the figures of rounds that were lost; they count only beside others */
const estimateOf = (values: readonly number[], lost: readonly number[] = []): Estimate | undefined =>
  values.length === 0 ? undefined : medianWithInterval([...values, ...lost]);

export const withInterval = ({ median, low, high }: Estimate, digits: number): string =>
  `${median.toFixed(digits)} [${low.toFixed(digits)}, ${high.toFixed(digits)}]`;
