/** Compares the figures of all rounds: medians and ratios. */
import { type Measure, measures } from './measurements.ts';
import type { Plan } from './plan.ts';
import type { Contender, Results, Round } from './results.ts';
import { type Estimate, medianWithInterval } from './statistics.ts';

/** The columns of a table. Ours is first, because ratios are ours divided by another's. */
export const contenders: readonly Contender[] = [
  'echoperator',
  'controller-runtime',
  'controller-runtime-ryw',
  'kube-rs',
  'client-node',
  'unrecorded',
  'before',
  'ceiling',
];

export const measureNames = Object.keys(measures) as readonly Measure[];

/** Of the ratio to a peer: the whole interval is better than 1, worse than 1, or neither. */
export type Standing = 'ahead' | 'behind' | 'undecided';

/** A comparison that the page shows first. */
interface Headline {
  readonly measure: Measure;
  readonly peer: Contender;
  /** Why ours is behind, and how that was found. The page shows it while ours is. */
  readonly why?: string;
}

const sharedProcessors =
  'The API server, etcd, the writers and the operator share two processors: the rate is what all of them need for an Echo.';

const mostlyNotOurCode =
  "By a profile of four bursts, 48 % of the main thread is undici, TLS and the streams of Node, 13 % garbage collection, 13 % JSON, and 25 % the project's code.";

const headlines: readonly Headline[] = [
  { measure: 'neighborP99', peer: 'controller-runtime' },
  { measure: 'neighborP99', peer: 'kube-rs' },
  { measure: 'refusedP99', peer: 'controller-runtime' },
  { measure: 'refusedP99', peer: 'kube-rs' },
  { measure: 'echosPerSecond', peer: 'controller-runtime', why: sharedProcessors },
  { measure: 'echosPerSecond', peer: 'kube-rs', why: sharedProcessors },
  { measure: 'cpuPerEcho', peer: 'controller-runtime', why: mostlyNotOurCode },
  { measure: 'warmCpuPerEcho', peer: 'controller-runtime', why: mostlyNotOurCode },
  { measure: 'longCpuPerEcho', peer: 'controller-runtime', why: mostlyNotOurCode },
  {
    measure: 'longCpuPerEcho',
    peer: 'kube-rs',
    why: 'An HTTP client of our own took 0.88 of the CPU, but it was 660 lines to maintain in place of a library.',
  },
  { measure: 'serverCpuPerEcho', peer: 'controller-runtime' },
  { measure: 'peakAnonymous', peer: 'controller-runtime' },
  { measure: 'peakAnonymous', peer: 'kube-rs' },
  { measure: 'longPeakAnonymous', peer: 'controller-runtime' },
  { measure: 'pace60P99', peer: 'controller-runtime' },
  { measure: 'pace60P99', peer: 'kube-rs' },
  { measure: 'start', peer: 'controller-runtime', why: 'Node and the bundle take 0.2 s to start.' },
  {
    measure: 'cachedMemory',
    peer: 'controller-runtime',
    why: "About 45 MB are pages of Node's binary, which processes share.",
  },
  { measure: 'coldHandover', peer: 'controller-runtime' },
  { measure: 'warmHandover', peer: 'controller-runtime' },
  { measure: 'coldCrash', peer: 'controller-runtime' },
  { measure: 'warmCrash', peer: 'controller-runtime' },
  { measure: 'coldIdleRequests', peer: 'controller-runtime' },
  { measure: 'warmIdleRequests', peer: 'controller-runtime' },
];

/** A headline with its ratio. */
export interface Comparison extends Headline {
  readonly title: string;
  readonly estimate: Estimate;
  readonly standing: Standing;
}

type Rounds = readonly Round[];

/**
 * Returns the rounds of all tables except the curve. Of the rounds with a varying number of cached objects, these are
 * the ones with the judged number.
 */
export const judgedRounds = ({ rounds, plan }: Results): Rounds => rounds.filter(hasJudged(plan));

const hasJudged =
  ({ judgedObjects }: Plan) =>
  ({ objects }: Pick<Round, 'objects'>): boolean =>
    objects === undefined || objects === judgedObjects;

/** Compares with single peers. A round in which our operator failed counts as the worst possible ratio. */
export function comparisons(results: Results, of: readonly Headline[] = headlines): readonly Comparison[] {
  const rounds = judgedRounds(results);
  const tookPart = present([...results.rounds, ...results.voidRounds]);
  return of.flatMap((headline) => {
    const { measure, peer } = headline;
    // A peer that was left out of the run, not one that a failure of ours kept from its turns.
    if (!tookPart.includes(peer)) return [];
    const { title, better } = measures[measure];
    const worst = better === 'higher' ? 0 : Number.POSITIVE_INFINITY;
    const lost = Array<number>(losses(results, measure)).fill(worst);
    const estimate = estimateOf([...ratios(rounds, peer, measure), ...lost]);
    if (estimate === undefined) return [];
    return [{ ...headline, title: `${title} ÷ ${peer}`, estimate, standing: standingOf(estimate, better) }];
  });
}

function standingOf({ low, high }: Estimate, better: 'lower' | 'higher'): Standing {
  if (low <= 1 && high >= 1) return 'undecided';
  return low > 1 === (better === 'higher') ? 'ahead' : 'behind';
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

/** In how many rounds of the measure's scenario our operator failed. */
const losses = ({ voidRounds, plan }: Results, measure: Measure): number =>
  voidRounds.filter(
    (round) =>
      round.failed === 'echoperator' && round.scenario === measures[measure].scenario && hasJudged(plan)(round),
  ).length;

/** The figures of a measure with one number of cached objects. */
export interface CurvePoint {
  readonly objects: number;
  readonly estimates: Readonly<Partial<Record<Contender, Estimate>>>;
}

/** Returns a measure with each number of cached objects. */
export function curve({ rounds }: Results, measure: Measure): readonly CurvePoint[] {
  const sizes = new Set(rounds.flatMap(({ objects }) => objects ?? []));
  return [...sizes]
    .sort((a, b) => a - b)
    .flatMap((objects) => {
      const of = rounds.filter((round) => round.objects === objects);
      const estimates: Partial<Record<Contender, Estimate>> = {};
      for (const contender of contenders) {
        const estimate = figure(of, contender, measure);
        if (estimate !== undefined) estimates[contender] = estimate;
      }
      return Object.keys(estimates).length === 0 ? [] : [{ objects, estimates }];
    });
}

/** Returns the contenders that took part in at least one round. */
export const present = (rounds: readonly Pick<Round, 'turns'>[]): readonly Contender[] =>
  contenders.filter((contender) => rounds.some(({ turns }) => turns[contender] !== undefined));

const estimateOf = (values: readonly number[]): Estimate | undefined =>
  values.length === 0 ? undefined : medianWithInterval(values);

export const withInterval = ({ median, low, high }: Estimate, digits: number): string =>
  `${median.toFixed(digits)} [${low.toFixed(digits)}, ${high.toFixed(digits)}]`;
