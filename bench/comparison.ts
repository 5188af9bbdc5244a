/** Compares the figures of all rounds: medians, ratios, and the project's targets. */
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

type Peers = readonly [Contender, ...Contender[]];

type Bound = { readonly atLeast: number } | { readonly atMost: number };

/**
 * A target: a bound of our figure, or of the ratio of our figure to the peer's. With several peers the ratio is to the
 * better peer of each round.
 */
export interface Bar {
  readonly measure: Measure;
  readonly peers?: Peers;
  readonly bound: Bound;
  /** Why the figure misses its bound, and how that was found. The page shows it while the bar is missed. */
  readonly limit?: string;
}

const controllerRuntime = ['controller-runtime'] as const;
const kubeRs = ['kube-rs'] as const;
/** Ratios to it are the cost of the flight recorder. */
const unrecorded = ['unrecorded'] as const;

const sharedProcessors =
  'The API server, etcd, the writers and the operator share two processors, which the burst keeps busy. ' +
  'So the rate depends on the CPU time that all of them need for an Echo. ' +
  'The bound is close to the rate of `ceiling`, which has no operator.';

const mostlyNotOurCode =
  "In a profile of four bursts, 48 % of the main thread is undici, TLS and Node's streams, 13 % garbage collection, " +
  "13 % JSON, and 25 % the project's code. Without that code the ratio would be about a fifth lower.";

/** The project's targets. A target is met if the median meets it. */
const projectBars: readonly Bar[] = [
  { measure: 'echosPerSecond', peers: kubeRs, bound: { atLeast: 0.97 }, limit: sharedProcessors },
  { measure: 'echosPerSecond', peers: controllerRuntime, bound: { atLeast: 1.1 }, limit: sharedProcessors },
  { measure: 'cpuPerEcho', peers: controllerRuntime, bound: { atMost: 0.8 }, limit: mostlyNotOurCode },
  { measure: 'warmCpuPerEcho', peers: controllerRuntime, bound: { atMost: 0.8 }, limit: mostlyNotOurCode },
  { measure: 'longCpuPerEcho', peers: controllerRuntime, bound: { atMost: 0.65 }, limit: mostlyNotOurCode },
  {
    measure: 'longCpuPerEcho',
    peers: kubeRs,
    bound: { atMost: 1.1 },
    limit: 'An HTTP client of our own took 0.88 of the CPU. But it had 660 lines to maintain, in place of a library.',
  },
  {
    measure: 'serverCpuPerEcho',
    peers: controllerRuntime,
    bound: { atMost: 1 },
    limit: 'Each operator sends the same writes for an Echo. A round in which the writes differ is void.',
  },
  {
    measure: 'idleAnonymous',
    bound: { atMost: 20 },
    limit:
      'Node alone has 8 MB, and 25 MB with all of undici, TLS and pino. ' +
      'The memory above 8 MB is mostly their code and data.',
  },
  { measure: 'peakAnonymous', peers: controllerRuntime, bound: { atMost: 2 } },
  { measure: 'peakAnonymous', peers: kubeRs, bound: { atMost: 2 } },
  { measure: 'longPeakAnonymous', peers: controllerRuntime, bound: { atMost: 0.8 } },
  {
    measure: 'pace60P99',
    peers: [...controllerRuntime, ...kubeRs],
    bound: { atMost: 1 },
    limit:
      'The lower of two noisy figures is below the median of either, ' +
      'so three equal operators would all miss this target. ' +
      'The section "All figures" has the ratio to each peer.',
  },
  {
    measure: 'start',
    peers: controllerRuntime,
    bound: { atMost: 1 },
    limit: 'Node and the bundle take 0.2 s to start, which the curve shows at 1,000 objects.',
  },
  {
    measure: 'statusWrites',
    bound: { atMost: 2.1 },
    limit:
      'Pending, Running and Succeeded are more than a second apart, and a status may be at most a second late. ' +
      'With postponed writes the figure was 2.96.',
  },
  {
    measure: 'cachedMemory',
    peers: controllerRuntime,
    bound: { atMost: 0.8 },
    limit: "About 45 MB are pages of Node's binary, which processes share.",
  },
  { measure: 'coldHandover', peers: controllerRuntime, bound: { atMost: 0.25 } },
  { measure: 'warmHandover', peers: controllerRuntime, bound: { atMost: 0.25 } },
  { measure: 'coldCrash', peers: controllerRuntime, bound: { atMost: 0.3 } },
  { measure: 'warmCrash', peers: controllerRuntime, bound: { atMost: 0.3 } },
  { measure: 'coldIdleRequests', peers: controllerRuntime, bound: { atMost: 1 } },
  { measure: 'warmIdleRequests', peers: controllerRuntime, bound: { atMost: 1 } },
  // The records take at most 3 MB, for which V8's peak grows by about 4 MB of 66.
  { measure: 'besidePeakAnonymous', peers: unrecorded, bound: { atMost: 1.06 } },
  { measure: 'rowsSeconds', peers: ['ceiling'], bound: { atMost: 1.2 } },
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
  /** Why the figure misses its bound, if that is known. */
  readonly limit?: string;
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

/** Compares with the bars. A round in which our operator failed counts as the worst possible figure. */
export function verdicts(results: Results, bars: readonly Bar[] = projectBars): readonly Verdict[] {
  const rounds = judgedRounds(results);
  const tookPart = present([...results.rounds, ...results.voidRounds]);
  return bars.flatMap(({ measure, peers, bound, limit }) => {
    // The run did not include this peer. A peer whose turns failed because of our failure still counts.
    if (peers !== undefined && !peers.some((peer) => tookPart.includes(peer))) return [];
    const { title, digits } = measures[measure];
    const values = peers === undefined ? figures(rounds, 'echoperator', measure) : ratios(rounds, peers, measure);
    const worst = 'atLeast' in bound ? 0 : Number.POSITIVE_INFINITY;
    const estimate = estimateOf([...values, ...Array<number>(losses(results, measure)).fill(worst)]);
    if (estimate === undefined) return [];
    const found: Verdict = {
      title: peers === undefined ? title : `${title} ÷ ${nameOf(peers)}`,
      asked: 'atLeast' in bound ? `≥ ${bound.atLeast}` : `≤ ${bound.atMost}`,
      estimate,
      digits: peers === undefined ? digits : 2,
      ...(limit !== undefined && { limit }),
      ...('atLeast' in bound
        ? { met: estimate.median >= bound.atLeast, metAtWorseEnd: estimate.low >= bound.atLeast }
        : { met: estimate.median <= bound.atMost, metAtWorseEnd: estimate.high <= bound.atMost }),
    };
    return [found];
  });
}

const nameOf = ([peer, ...others]: Peers): string => (others.length === 0 ? peer : 'the better peer of each round');

/** Returns the median of a figure over all rounds; undefined if no round has it. */
export function figure(rounds: Rounds, contender: Contender, measure: Measure): Estimate | undefined {
  return estimateOf(figures(rounds, contender, measure));
}

const figures = (rounds: Rounds, contender: Contender, measure: Measure): readonly number[] =>
  rounds.flatMap(({ turns }) => turns[contender]?.figures[measure] ?? []);

/** Returns the median of our figure divided by the peer's, over all rounds that have both. */
export function ratio(rounds: Rounds, peer: Contender, measure: Measure): Estimate | undefined {
  return estimateOf(ratios(rounds, [peer], measure));
}

/** Divides our figure by the best one of the peers, in each round that has ours and at least one of theirs. */
const ratios = (rounds: Rounds, peers: Peers, measure: Measure): readonly number[] =>
  rounds.flatMap(({ turns }) => {
    const ours = turns.echoperator?.figures[measure];
    const theirs = peers.flatMap((peer) => turns[peer]?.figures[measure] ?? []);
    if (ours === undefined || theirs.length === 0) return [];
    const best = measures[measure].better === 'lower' ? Math.min(...theirs) : Math.max(...theirs);
    return best === 0 ? [] : [ours / best];
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
