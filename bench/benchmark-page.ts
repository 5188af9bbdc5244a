/** docs/benchmark.md and its plots, made of nothing but what a run has found. */
import { type CurvePoint, comparisons, contenders, curve, figure, judgedRounds, present } from './comparison.ts';
import { disturbed } from './disturbance.ts';
import { timings } from './failover/elections.ts';
import { type Measure, measures } from './measurements.ts';
import { quietPerSecond, quietTimeoutMs, refusedMs } from './neighbor/index.ts';
import { pacePercents, pacesOf } from './paces.ts';
import { minutesOf, type PartName, partNames, parts } from './parts.ts';
import { isWhole } from './plan.ts';
import { barPlot, curvePlot, distributionPlot } from './plots/index.ts';
import {
  besidesTable,
  besideTable,
  curveMeasures,
  curveTable,
  figureTable,
  headlineTable,
  ratioTable,
  reasonList,
  table,
} from './report.ts';
import type { Contender, PartRun, Results } from './results.ts';
import { workers } from './running-operator.ts';
import { warmBursts } from './side-by-side.ts';
import { median } from './statistics.ts';

/** A page and the pictures that it shows, by their names in the folder beside it. */
export interface BenchmarkPage {
  readonly markdown: string;
  readonly plots: ReadonlyMap<string, string>;
}

/** The folder of the plots and of bench.json, beside the page. */
export const besidePage = 'benchmark';

export function benchmarkPage(results: Results): BenchmarkPage {
  const plots = new Map<string, string>();
  const show = (name: string, title: string, plot: string): string => {
    plots.set(`${name}.svg`, plot);
    return `![${title}](${besidePage}/${name}.svg)`;
  };
  const compared = comparisons(results);
  const sections = [
    introduction(results),
    warning(results),
    ...neighbors(results, show),
    '## Where it is ahead, and where behind',
    "The median of the ratios of each round, ours to the peer's, and an interval around it: `ahead` if all of the interval is better " +
      'than 1, `behind` if all of it is worse. More is better of Echos/s, less of everything else. An interval holds the true median ' +
      'with the probability `coverage`, which is low where rounds are few.',
    headlineTable(compared),
    reasonList(compared),
    '## What the API server leaves possible',
    ceiling(results),
    ...scenarios.flatMap(({ heading, about, measures: shown, waits, peer, besides = [] }) => {
      const measured = shown.flatMap((measure) => {
        const bars = present(results.rounds).flatMap((name) => {
          const estimate = figure(judgedRounds(results), name, measure);
          return estimate === undefined ? [] : [{ name, estimate }];
        });
        return bars.length === 0 ? [] : [{ measure, bars }];
      });
      if (measured.length === 0) return [];
      const pictures = measured.flatMap(({ measure, bars }) => {
        const { title, digits } = measures[measure];
        return plotted.has(measure) ? [show(kebab(measure), title, barPlot(title, bars, digits))] : [];
      });
      return [
        `## ${heading}`,
        about(results),
        ...(peer ? [besideTable(results, peer, [...shown, ...besides])] : []),
        ...(waits ? distribution(results, show) : []),
        ...pictures,
      ];
    }),
    ...curves(results, show),
    '## All figures',
    figureTable(results),
    ratioTable(results),
    '## How it is measured',
    method(results),
    '## What took part',
    participants(results),
    disturbances(results),
    '## Measure it again',
    repeat,
  ];
  return { markdown: `${sections.filter((section) => section !== '').join('\n\n')}\n`, plots };
}

/** What a tenant notices of another one: on the first screen, because users feel it. */
function neighbors(results: Results, show: Show): readonly string[] {
  const { plan, rounds } = results;
  const peers = ['controller-runtime', 'kube-rs'] as const;
  const bars = present(rounds).flatMap((name) => {
    const estimate = figure(rounds, name, 'neighborP99');
    return estimate === undefined ? [] : [{ name, estimate }];
  });
  if (bars.length === 0) return [];
  const { title } = measures.neighborP99;
  return [
    '## A tenant beside a busy one',
    `One tenant creates ${plan.neighborObjects} Echos at once. Meanwhile another tenant creates single Echos in its own
namespace, ${quietPerSecond} a second. Its wait ends when the Job of its Echo is there. An Echo without a Job ${quietTimeoutMs / 1000} s after the
last one was created counts with the time that it has waited until then, so long waits are lower bounds.`,
    show('neighbor-p99', title, barPlot(title, bars, 0)),
    besidesTable(results, peers, ['neighborP50', 'neighborP99']),
    `Below, the API server refuses the Jobs of the busy tenant's ${plan.refusedObjects} Echos, because their webhook is down. The
refused requests are those of the worst second in the ${refusedMs / 1000} s after the last creation by that tenant. Then the webhook is
removed.`,
    besidesTable(results, peers, ['refusedP50', 'refusedP99', 'refusedPerSecond', 'recoveredShare', 'recoveryOrder']),
  ];
}

interface Scenario {
  readonly heading: string;
  readonly about: (results: Results) => string;
  readonly measures: readonly Measure[];
  /** Whether the distribution of the waits is plotted. */
  readonly waits?: true;
  /** The contender to compare with ours in a table. */
  readonly peer?: Contender;
  /** Measures that only the table shows. */
  readonly besides?: readonly Measure[];
}

/** The measures with a plot; the tables have all. */
const plotted: ReadonlySet<Measure> = new Set(['echosPerSecond', 'cpuPerEcho', 'coldCrash']);

const scenarios: readonly Scenario[] = [
  {
    heading: 'A burst',
    about: ({ plan }) =>
      `16 writers create ${plan.burst} Echos as fast as they can. In the second burst they create as many again. By then
the operator's code is compiled, and its caches have grown.

The p99 of kube-rs is most of the burst's length, because its work queue has no order. While all workers are busy,
kube-rs's scheduler holds due keys in a hash set (\`kube-runtime/src/scheduler.rs\`). It takes the next key in the order
of the set, not in the order of arrival, so a few keys wait until the set is empty. Without a limit of concurrent
reconciles the scheduler holds no key, and these waits do not occur.`,
    measures: [
      'echosPerSecond',
      'burstP50',
      'burstP99',
      'cpuPerEcho',
      'serverCpuPerEcho',
      'peakAnonymous',
      'peakMemory',
      'warmEchosPerSecond',
      'warmCpuPerEcho',
      'warmServerCpuPerEcho',
      'resumedWatches',
    ],
    waits: true,
  },
  {
    heading: 'A long burst',
    about: ({ plan }) =>
      `The long burst is a burst of ${plan.longBurst} Echos, measured in ${count(plan.longRounds, 'round')}.`,
    measures: [
      'longEchosPerSecond',
      'longP50',
      'longP99',
      'longCpuPerEcho',
      'longServerCpuPerEcho',
      'longPeakAnonymous',
      'longPeakMemory',
      'longResumedWatches',
    ],
  },
  {
    heading: 'Even paces',
    about: ({ plan, parts: { burst } }) =>
      `Echos are created at an even pace, whatever the API server's and the operator's speed: ${
        burst?.slowerRate === undefined
          ? 'not in this run.'
          : `for ${plan.paceSeconds} s each ${Object.entries(pacesOf(burst.slowerRate))
              .map(([percent, perSecond]) => `${perSecond} a second (${percent} %)`)
              .join(', ')}. 100 % is what the slower of the Go and Rust peers did in a burst before the rounds.`
      }`,
    measures: pacePercents.flatMap((percent) => [`pace${percent}P50`, `pace${percent}P99`] as const),
  },
  {
    heading: 'Memory and start',
    about: ({ plan }) =>
      `The memory is measured ${plan.settleMs / 1000} s after the caches have synced: with nothing to cache, and with
${plan.judgedObjects} objects, half of them Echos and half their Jobs. With these objects the time from the start of the
process until its caches have synced is measured too. Anonymous memory is the process's own. Resident memory includes
the pages of its binary, which processes share. One second after the sync, each operator frees the memory that the lists
no longer need: ours and the client-node peer collect garbage, controller-runtime calls \`debug.FreeOSMemory\`, and
kube-rs calls \`malloc_trim\`.`,
    measures: ['idleAnonymous', 'idleMemory', 'cachedAnonymous', 'cachedMemory', 'start'],
  },
  {
    heading: 'The flight recorder',
    about: ({ plan }) =>
      `This section compares our operator with \`unrecorded\`, the same operator without its flight recorder. Both run
at the same time on one API server, each in its own namespace. The bench creates ${plan.besideBurst} Echos in each
namespace, alternately, and then ${warmBursts} times as many for the warm figures. In
${count(plan.besideRounds, 'round')} the two alternate in who starts first and in their namespaces. A disturbance slows
down both, so the ratio varies less than between turns.`,
    measures: ['besideCpuPerEcho', 'besideWarmCpuPerEcho', 'besidePeakAnonymous'],
    peer: 'unrecorded',
  },
  {
    heading: 'Until the Job has succeeded',
    about: ({ plan }) =>
      `This section measures only our operator, with kube-controller-manager, and with kwok, whose pods run for 3 to 5
s. The bench first creates a few Echos while everything is idle, and then a burst of ${plan.lifecycleBurst}, in
${count(plan.lifecycleRounds, 'round')}. The status writes of an Echo are counted from its creation until its status
says that the Job has succeeded. "From Job to status" is the time between two events in the bench's own watches: the Job
has succeeded, and the Echo's status says so.`,
    measures: ['statusWrites', 'jobsPerSecond', 'lifecycleCpu', 'idleLagP50', 'burstLagP50', 'burstLagP99'],
  },
  {
    heading: 'Failover',
    about: ({ plan }) =>
      `One process of each operator leads, and the others are standbys: cold ones with empty caches, or warm ones with
full caches. All have the same Lease: ${timings.leaseDurationSeconds} s long, renewed every
${timings.retryPeriodSeconds} s, given up after ${timings.renewDeadlineSeconds} s.

- SIGTERM: the leader is asked to stop and releases the Lease, ${count(plan.handovers, 'time')} in each of
  ${count(plan.handoverRounds, 'round')}.
- SIGKILL: the leader's process is killed, in ${count(plan.crashRounds, 'round')}, in a pod on a cluster of two nodes.
  The peer's standby waits until the Lease expires. Our standby waits until the kubelet reports that the container has
  ended.
- Lost node: the leader's node loses its power, in ${count(plan.nodeRounds, 'round')}. No kubelet reports anything, so
  both standbys wait until the Lease expires.

Meanwhile the bench creates ${plan.echosPerSecond} Echos per second. The figure is the time from the signal until the
API server receives the next leader's first write. The cost of standbys is measured too: the requests of three idle
processes, counted for ${plan.idleSeconds} s.`,
    measures: [
      'coldHandover',
      'warmHandover',
      'coldCrash',
      'warmCrash',
      'nodeLoss',
      'coldIdleRequests',
      'warmIdleRequests',
    ],
    peer: 'controller-runtime',
  },
  {
    heading: 'Kinds with an external system',
    about: ({ plan }) =>
      `${plan.postgresWriters} PostgresWriters, each a row of a PostgreSQL, and ${plan.pets} Pets, each a pet of the pet store, which writes it to the
disk before it answers. All are there when our operator starts, in ${count(plan.externalRounds, 'round')}. What counts is the time from the first write that
the API server receives for one of them to its answer to the last: for each a finalizer and twice the status.
\`ceiling\` is the bench itself: it does the same writes and nothing outside, has ${workers} at once under way as the operator has, watches
nothing, and writes no Event.

The time in the database is PostgreSQL's own, \`active_time\`: from a statement's arrival to its answer, with its parsing, planning
and commit. The CPU is that of the API server, etcd, the operator, what is outside and the bench; ours has the operator's start and the
Events in it. One COPY of as many rows, and single INSERTs of a tenth of them, are taken in the same minutes.`,
    measures: ['rowsSeconds', 'petsPerSecond'],
    besides: ['rowsCpu', 'petsCpu', 'rowStatements', 'rowsDatabaseMs', 'rowsToCopy', 'rowsToInserts'],
    peer: 'ceiling',
  },
];

const introduction = (results: Results): string =>
  `# Benchmark

<!-- Made by \`make bench\` from ${besidePage}/bench.json: do not edit. -->

The operator and three others that do the same work, in turns on one machine. They use Go's
[controller-runtime](https://github.com/kubernetes-sigs/controller-runtime), Rust's [kube-rs](https://kube.rs), and the informer and
typed API of [@kubernetes/client-node](https://github.com/kubernetes-client/javascript). [Every figure](#all-figures) is in a table.

${table(
  ['part', 'measured on', 'commit', 'minutes', 'what'],
  measuredParts(results).map(([name, { date, versions, minutes }]) => [
    name,
    date.slice(0, 10),
    versions.echoperator ?? 'unknown',
    String(minutes ?? '–'),
    parts[name].title,
  ]),
)}

When this page was made, ${
    results.age === undefined
      ? 'its age was unknown'
      : `${count(results.age, 'later commit')} had changed src/ or packages/ since the oldest part`
  }; \`node bench/age.ts\` counts them today, and a release requires 0.`;

const measuredParts = ({ parts: runs }: Results): readonly (readonly [PartName, PartRun])[] =>
  partNames.flatMap((name) => (runs[name] === undefined ? [] : [[name, runs[name]]]));

/** Returns a warning if the figures are unreliable. */
function warning(results: Results): string {
  const { plan, rounds, voidRounds } = results;
  const found: string[] = [];
  const short = measuredParts(results).flatMap(([name]) => (isWhole(plan, parts[name].plan) ? [] : [name]));
  if (short.length > 0) found.push(`Short runs, whose figures say little: ${short.join(', ')}.`);
  const turns = rounds.flatMap(({ turns }) => Object.values(turns));
  const noisy = turns.filter(({ disturbance }) => disturbance > disturbed).length;
  if (noisy > 0) {
    const percent = disturbed * 100;
    found.push(
      `In ${noisy} of ${turns.length} turns ([list](#disturbed-turns)), other processes used more than ${percent} % of
the processors.`,
    );
  }
  if (voidRounds.length > 0)
    found.push(`${count(voidRounds.length, 'round')} did not count ([reasons](#void-rounds)).`);
  return found.length === 0 ? '' : `> ${found.join(' ')}`;
}

function ceiling({ rounds }: Results): string {
  const most = figure(rounds, 'ceiling', 'echosPerSecond');
  if (most === undefined) return 'This run did not measure the limit.';
  const reached = present(rounds).flatMap((name) => {
    const rate = figure(rounds, name, 'echosPerSecond');
    return rate === undefined || name === 'ceiling'
      ? []
      : [`${name} ${((rate.median / most.median) * 100).toFixed(0)} %`];
  });
  return `Without an operator, the API server accepts ${most.median.toFixed(0)} Echos/s: the bench itself sends the
writes of an operator (32 Jobs, statuses and Events at a time, no watches). The operators reach these shares of this rate:
${reached.join(', ')}.

The API server, etcd, the operator and the writers share the machine. The bench runs on Node and shares the processors
too, so an operator that needs less CPU for its writes can be faster.`;
}

type Show = (name: string, title: string, plot: string) => string;

function distribution({ rounds }: Results, show: Show): readonly string[] {
  const of = rounds.filter(({ scenario }) => scenario === 'load');
  const lines = present(of).flatMap((name) => {
    const waits = of.flatMap(({ turns }) => (turns[name]?.waits === undefined ? [] : [turns[name].waits]));
    const [first] = waits;
    if (first === undefined) return [];
    // The median of the rounds at each quantile.
    return [{ name, quantiles: first.map((_, step) => median(waits.map((wait) => wait[step] ?? Number.NaN))) }];
  });
  if (lines.length === 0) return [];
  const title = 'How long an Echo of the burst waits';
  const plot = distributionPlot(title, 'wait in ms, logarithmic scale', lines);
  return [show('burst-waits', title, plot)];
}

/** How figures grow with the number of cached objects. */
function curves(results: Results, show: Show): readonly string[] {
  const shown = curveMeasures.flatMap((measure) => {
    const points = curve(results, measure);
    if (points.length === 0) return [];
    const { title } = measures[measure];
    const name = `by-objects-${kebab(measure)}`;
    return [show(name, title, curvePlot(title, 'cached objects', linesOf(points))), curveTable(results, measure)];
  });
  if (shown.length === 0) return [];
  return [
    '## With few and with many objects',
    `Half of the objects are Echos, and half are their Jobs. An event changes an Echo that needs no write: the operator
reads, stores and reconciles the Echo, and sends no request. A scripted server sends 20,000 events and checks this.
Memory and start are measured on a real API server, whose objects were written into its etcd. The pauses of the event
loop include the start of the program, about 100 ms.`,
    ...shown,
  ];
}

const linesOf = (points: readonly CurvePoint[]) =>
  contenders.flatMap((name) => {
    const line = points.flatMap(({ objects, estimates }) => {
      const median = estimates[name]?.median;
      return median === undefined ? [] : [{ x: objects, y: median }];
    });
    return line.length === 0 ? [] : [{ name, points: line }];
  });

const firstOf = (rounds: number | undefined): string => `In the first ${count(rounds ?? 0, 'round')}`;

const method = ({ plan }: Results): string =>
  `- Each operator makes for an Echo one Job, one status with \`observedGeneration\`, and one Event, has 32 workers, caches all
  Echos and Jobs without their managedFields, and connects as in a pod, by TLS and a service account's token. Client-side
  throttling is off. The Go and Rust peers are release builds with the default settings of their toolchains; ours is the
  bundle of the image, started with the image's own V8 flags.
- In a round each has its turn on an API server and an etcd of its own, started afresh; every other round goes the other way
  round (ABBA). Memory and start with many objects are measured on one server that has been filled once: there an operator
  only reads. After each filling one start is not counted, because the server still compacts and flushes then.
- The API server writes an audit log. From it the requests an Echo are counted by verb; a round in which they differ between
  two operators is void. A round in which ours fails, or in which only ours differ, counts as the worst ratio in every
  comparison of the scenario with one peer.
- An Echo of a burst waits from the answer to its creation, and one at an even pace from the moment when its creation was due: a slow
  answer counts too. The wait ends when the bench's own watch has seen both its Job and its status.
- A burst's rate is counted from the first creation's arrival at the API server to its answer to the operator's last write, be
  that a Job, a status or an Event.
- ${firstOf(plan.someRounds['client-node'])} of the bursts the client-node peer takes part, which is far slower than the others. ${firstOf(
    plan.someRounds['controller-runtime-ryw'],
  )}
  controller-runtime takes part also with \`EnableReadYourWritesConsistency\`: a read waits until the cache has observed the writes before it.
- The kube-rs peer makes its \`Recorder\` once and awaits each Event, as kube-rs's example controller does.
- As in any pod, each operator takes a Lease and renews it every ${timings.retryPeriodSeconds} s, also where no other stands by. kube-rs and client-node have no
  leader election: their peers only write the Lease.
- A leader is ended at a random moment between two attempts of its standby to get the Lease. The signal's time and the audit
  log's are of one machine's clock; each process has a service account of its own, by which the audit log tells whose a
  write is. Only the writes of Jobs and of Echos' statuses count. A leader that is killed has led for over 10 s.
  In the requests of those that have nothing to do there are hardly any watches: one is opened anew every 5 to 10 minutes.
- The API server ends the watch of a client that falls behind. A watch that an operator starts after its first two, of Echos and of
  Jobs, counts as resumed.
- etcd runs without fsync, so that it is not a disk that is measured.
- The intervals are of order statistics: the narrowest with a coverage of at least 95 %, or from the least to the greatest value. MB are 10^6 bytes.`;

function participants(results: Results): string {
  const { rounds } = results;
  const runs = measuredParts(results);
  const names = new Set(['machine', ...runs.flatMap(([, { versions }]) => Object.keys(versions))]);
  const found = (name: string): string => {
    const of = runs.flatMap(([part, { versions, machine }]) => {
      const version = name === 'machine' ? machine : versions[name];
      return version === undefined ? [] : [{ part, version }];
    });
    const groups = [...Map.groupBy(of, ({ version }) => version)];
    return groups
      .map(([version, of]) => (groups.length === 1 ? version : `${version} (${of.map(({ part }) => part).join(', ')})`))
      .join('; ');
  };
  const [load] = rounds.filter(({ scenario }) => scenario === 'load');
  const requests = Object.entries(load?.turns.echoperator?.requests ?? {});
  return [
    table(
      ['what', 'version'],
      [...names].map((name) => [name, found(name)]),
    ),
    ...(requests.length === 0
      ? []
      : [
          'The requests per Echo, which are the same for all operators:',
          requests.map(([part, counted]) => `- ${part}: ${counted}`).join('\n'),
        ]),
  ].join('\n\n');
}

function disturbances({ rounds, voidRounds, parts: runs }: Results): string {
  const repeated = Object.values(runs).reduce((sum, { repeatedRounds = 0 }) => sum + repeatedRounds, 0);
  const parts: string[] = [];
  // Among those of its scenario.
  const numberOf = (index: number): number =>
    rounds
      .slice(0, index + 1)
      .filter((other) => other.scenario === rounds[index]?.scenario && other.objects === rounds[index]?.objects).length;
  const rows = rounds.flatMap(({ scenario, objects, turns }, index) =>
    (Object.keys(turns) as Contender[]).flatMap((name) => {
      const { disturbance = 0 } = turns[name] ?? {};
      if (disturbance <= disturbed) return [];
      const where = objects === undefined ? scenario : `${scenario}, ${objects} objects`;
      return [[`${numberOf(index)}`, where, name, `${(disturbance * 100).toFixed(0)} %`]];
    }),
  );
  if (rows.length > 0) {
    parts.push(
      '## Disturbed turns',
      `The turns in which processes of others had more than ${disturbed * 100} % of the processors. They are counted as any other${repeated === 0 ? '' : `; ${count(repeated, 'more disturbed round')} were run again instead`}.`,
      table(['round', 'scenario', 'contender', 'others'], rows),
    );
  }
  if (voidRounds.length > 0) {
    const items = voidRounds.map(({ scenario, reason }) => `- ${scenario}: ${reason.split('\n', 1)[0]}`);
    parts.push('## Void rounds', items.join('\n'));
  }
  return parts.join('\n\n');
}

const repeat = `Run these commands on Linux, as root, with Go and Rust, on an otherwise idle machine:

    make bench                        # every part, about ${minutesOf(partNames)} minutes on two cores; writes this page
${partNames.map((name) => `    make bench PART=${name.padEnd(18)}# only this part, about ${parts[name].minutes} minutes`).join('\n')}
    make bench QUICK=1                # less of everything, within 5 minutes; writes its page to dist/bench/
    node bench/main.ts bundles main . # two versions of our operator, each a revision or a folder; writes to dist/bench/
    node bench/main.ts --help

What the page has of other parts stays. The usual plan has so few rounds of bursts that no part takes more than 15 minutes. \`ROUNDS=6 BESIDE_ROUNDS=6 LONG_ROUNDS=3 make bench PART=burst\`
takes about 25 minutes: 6 rounds are the fewest whose intervals cover 95 %.

\`ROUNDS\`, \`BURST\`, \`PACE_SECONDS\`, \`BESIDE_ROUNDS\`, \`BESIDE_BURST\`, \`LONG_ROUNDS\`, \`LONG_BURST\`, \`CACHE_ROUNDS\`, \`CURVE_ROUNDS\`, \`EVENT_COST_ROUNDS\`,
\`LIFECYCLE_ROUNDS\`, \`HANDOVER_ROUNDS\`, \`CRASH_ROUNDS\`, \`NODE_ROUNDS\`, \`IDLE_ROUNDS\`, \`EXTERNAL_ROUNDS\`, \`POSTGRES_WRITERS\`, \`PETS\`,
\`NEIGHBOR_ROUNDS\`, \`NEIGHBOR_OBJECTS\`, \`REFUSED_ROUNDS\` and \`REFUSED_OBJECTS\` set how much is done; a run of less than usual writes to dist/bench/ too. \`node bench/page.ts\` makes this page again from [bench.json](${besidePage}/bench.json), which has every figure.`;

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;

const kebab = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
