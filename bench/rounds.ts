/** The rounds of a run: their contenders, their order, and whether a round counts. */

import { ceilingTurn } from './ceiling.ts';
import { disturbed } from './disturbance.ts';
import { eventCostTurn } from './event-cost/index.ts';
import { bareTurn, externalTurn, subjects } from './external/index.ts';
import {
  CrashCluster,
  crashTurn,
  type Electing,
  electing,
  handoverTurn,
  idleTurn,
  lostNodeTurn,
} from './failover/index.ts';
import { lifecycleTurn } from './lifecycle/index.ts';
import { neighborTurn, refusedTurn } from './neighbor/index.ts';
import type { Operator } from './operators.ts';
import type { Paces } from './paces.ts';
import type { Plan } from './plan.ts';
import { readRequests } from './requests.ts';
import type { Contender, Round, Turn, VoidRound } from './results.ts';
import { TurnError } from './running-operator.ts';
import { type Pair, sideBySideTurns } from './side-by-side.ts';
import {
  cachedPrefix,
  cacheTurn,
  loadTurn,
  longBurstTurn,
  maximumRate,
  PopulatedServer,
  type RunContext,
} from './turns.ts';

/** Receives each round when it is over. */
export interface RoundsTaken {
  counts(round: Round): Promise<void>;
  isVoid(round: VoidRound): Promise<void>;
  /** Whether a disturbed round is run again instead of being counted. */
  isRepeated(): Promise<boolean>;
}

const uncounted: RoundsTaken = {
  counts: async () => {},
  isVoid: async () => {},
  isRepeated: async () => false,
};

/** Reverses every other round (ABBA), so that a machine that warms up or slows down favours no contender. */
export const inOrder = <T>(items: readonly T[], round: number): readonly T[] =>
  round % 2 === 0 ? items : [...items].reverse();

type Turns = readonly (readonly [Contender, () => Promise<Turn>])[];

/** Whether a contender takes part in a round of the bursts and the even paces. */
export const takesPart = (name: Contender, round: number, { someRounds }: Pick<Plan, 'someRounds'>): boolean =>
  round < (someRounds[name] ?? Number.POSITIVE_INFINITY);

/** It cannot keep up with any of the paces. */
const burstsOnly = ['client-node'];

const kubernetesClients = ['controller-runtime', 'kube-rs'];

/**
 * Returns the highest rate of the slower of the Go and Rust peers, in Echos per second. Measures it with a burst of
 * each before the rounds, so that all rounds have the same paces. Undefined if neither peer takes part.
 */
export async function slowerRateOf(operators: readonly Operator[], context: RunContext): Promise<number | undefined> {
  const rates: number[] = [];
  for (const operator of operators.filter(({ name }) => kubernetesClients.includes(name))) {
    const rate = await maximumRate(operator, context);
    console.error(`${operator.name}: up to ${rate.toFixed(0)} Echos/s`);
    rates.push(rate);
  }
  return rates.length === 0 ? undefined : Math.min(...rates);
}

/** Rounds with an idle operator, bursts and even paces. The first rounds also measure the API server's limit. */
export async function loadRounds(
  operators: readonly Operator[],
  paces: Paces,
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { plan } = context;
  const all: Turns = [
    ...operators.map((operator) => {
      const own = burstsOnly.includes(operator.name) ? {} : paces;
      return [operator.name, () => loadTurn(operator, own, context)] as const;
    }),
    ['ceiling', () => ceilingTurn(context)],
  ];
  for (let round = 0; round < plan.rounds; round++) {
    const turns = all.filter(([name]) => takesPart(name, round, plan));
    await takeRound({ scenario: 'load' }, `round ${round + 1} of ${plan.rounds}`, inOrder(turns, round), taken);
  }
}

/** Rounds of our operator beside itself without its flight recorder. */
export async function sideBySideRounds(
  [ours, unrecorded]: Pair<Operator>,
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { besideRounds: rounds } = context.plan;
  for (let round = 0; round < rounds; round++) {
    const measure = () => sideBySideTurns([ours, unrecorded], round, context);
    let both: Promise<Pair<Turn>> | undefined;
    const turns: Turns = [
      [
        ours.name,
        async () => {
          both = measure();
          return (await both)[0];
        },
      ],
      [unrecorded.name, async () => (await (both ?? measure()))[1]],
    ];
    await takeRound({ scenario: 'side by side' }, `side by side ${round + 1} of ${rounds}`, turns, taken);
  }
}

export async function longBurstRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { longRounds, someRounds } = context.plan;
  const turns: Turns = operators
    .filter(({ name }) => someRounds[name] === undefined)
    .map((operator) => [operator.name, () => longBurstTurn(operator, context)]);
  for (let round = 0; round < longRounds; round++) {
    const name = `long burst ${round + 1} of ${longRounds}`;
    await takeRound({ scenario: 'long burst' }, name, inOrder(turns, round), taken);
  }
}

/**
 * Rounds of memory and start, with few and with many cached objects. All operators use one server, which fills up, and
 * only read.
 */
export async function cacheRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { cachedObjects, judgedObjects, cacheRounds: judgedRounds, curveRounds } = context.plan;
  if (judgedRounds + curveRounds === 0) return;
  const server = await PopulatedServer.start(context);
  try {
    const turns: Turns = operators.map((operator) => [
      operator.name,
      () => cacheTurn(operator, server.server, context),
    ]);
    for (const objects of cachedObjects) {
      await server.fill(objects);
      // The server still compacts and flushes after the fill, which slows down the first start.
      await takeRound(
        { scenario: 'cache', objects },
        `${objects} objects cached, uncounted`,
        turns.slice(0, 1),
        uncounted,
      );
      const rounds = objects === judgedObjects ? judgedRounds : curveRounds;
      for (let round = 0; round < rounds; round++) {
        const name = `${objects} objects cached ${round + 1} of ${rounds}`;
        await takeRound({ scenario: 'cache', objects }, name, inOrder(turns, round), taken);
      }
    }
  } finally {
    await server.server.stop();
  }
  // All objects are up to date, so a restart must not write.
  const { counts } = await readRequests(server.server.auditLog, cachedPrefix);
  if (counts.size > 0) {
    const reason = `a restart sent requests: ${JSON.stringify([...counts])}`;
    await reportVoid({ scenario: 'restart', turns: {}, reason }, taken);
  }
}

/** Rounds of the cost of an event, with few and with many cached objects. */
export async function eventCostRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { eventObjects, eventCostRounds: rounds } = context.plan;
  for (let round = 0; round < rounds; round++) {
    for (const objects of inOrder(eventObjects, round)) {
      const turns: Turns = operators.map((operator) => [
        operator.name,
        () => eventCostTurn(operator, objects, context),
      ]);
      const name = `events with ${objects} objects cached ${round + 1} of ${rounds}`;
      await takeRound({ scenario: 'event cost', objects }, name, inOrder(turns, round), taken);
    }
  }
}

/** Rounds of our operator, with Echos until they succeed. @param operators bundles of our operator */
export async function lifecycleRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { lifecycleRounds: rounds } = context.plan;
  const turns: Turns = operators.map((operator) => [operator.name, () => lifecycleTurn(operator, context)]);
  for (let round = 0; round < rounds; round++) {
    const name = `to Succeeded ${round + 1} of ${rounds}`;
    await takeRound({ scenario: 'to Succeeded' }, name, inOrder(turns, round), taken);
  }
}

/** Rounds of stopped leaders, idle groups, killed leaders and lost nodes, of the operators with leader election. */
export async function failoverRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { handoverRounds, crashRounds, nodeRounds, idleRounds } = context.plan;
  const who = electing(operators);
  const take = async (scenario: Round['scenario'], rounds: number, turn: (one: Electing) => Promise<Turn>) => {
    for (let round = 0; round < rounds; round++) {
      const turns = who.map((one) => [one.operator.name, () => turn(one)] as const);
      await takeRound({ scenario }, `${scenario} ${round + 1} of ${rounds}`, inOrder(turns, round), taken);
    }
  };
  await take('handover', handoverRounds, (one) => handoverTurn(one, context));
  await take('idle group', idleRounds, (one) => idleTurn(one, context));
  if (crashRounds + nodeRounds === 0) return;
  let on: CrashCluster;
  try {
    on = await CrashCluster.up(who, context);
  } catch (error) {
    if (!(error instanceof TurnError)) throw error;
    await reportVoid({ scenario: 'crash', turns: {}, reason: error.message }, taken);
    return;
  }
  try {
    await take('crash', crashRounds, (one) => crashTurn(one, on, context));
    await take('lost node', nodeRounds, (one) => lostNodeTurn(one, on, context));
  } finally {
    await on.down();
  }
}

/**
 * Our operator with the kinds that live outside the cluster. Each round also measures only their writes to the API
 * server.
 */
export async function externalRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { externalRounds: rounds } = context.plan;
  for (let round = 0; round < rounds; round++) {
    for (const subject of inOrder(subjects, round)) {
      const turns: Turns = [
        ...operators.map((operator) => [operator.name, () => externalTurn(subject, operator, context)] as const),
        ['ceiling', () => bareTurn(subject, context)],
      ];
      const { scenario } = subject;
      await takeRound({ scenario }, `${scenario} ${round + 1} of ${rounds}`, inOrder(turns, round), taken);
    }
  }
}

/** Rounds of a tenant beside a busy one. */
export const neighborRounds = tenantRounds('neighbor', neighborTurn, (plan) => plan.neighborRounds);

/** Rounds of a tenant beside one whose Jobs are refused. */
export const refusedRounds = tenantRounds('refused neighbor', refusedTurn, (plan) => plan.refusedRounds);

function tenantRounds(
  scenario: 'neighbor' | 'refused neighbor',
  turn: typeof neighborTurn,
  roundsOf: (plan: Plan) => number,
): (operators: readonly Operator[], context: RunContext, taken: RoundsTaken) => Promise<void> {
  return async (operators, context, taken) => {
    const rounds = roundsOf(context.plan);
    const turns: Turns = operators.map((operator) => [operator.name, () => turn(operator, context)]);
    for (let round = 0; round < rounds; round++) {
      await takeRound({ scenario }, `${scenario} ${round + 1} of ${rounds}`, inOrder(turns, round), taken);
    }
  };
}

async function reportVoid(lost: VoidRound, taken: RoundsTaken): Promise<void> {
  console.error(`${lost.scenario}: void: ${lost.reason}`);
  await taken.isVoid(lost);
}

/** Runs the turns of a round, again if other processes disturbed it, and reports the round as counted or void. */
export async function takeRound(
  of: Omit<Round, 'turns'>,
  name: string,
  turns: Turns,
  taken: RoundsTaken,
): Promise<void> {
  const done: Partial<Record<Contender, Turn>> = {};
  for (const [contender, take] of turns) {
    try {
      const turn = await take();
      done[contender] = turn;
      console.error(`${name}, ${contender}: ${summary(turn)}`);
    } catch (error) {
      if (!(error instanceof TurnError)) throw error;
      // The other rounds continue.
      await reportVoid({ ...of, turns: done, failed: contender, reason: error.message }, taken);
      return;
    }
  }
  if (Object.values(done).some(({ disturbance }) => disturbance > disturbed) && (await taken.isRepeated())) {
    console.error(`${name}: others disturbed it: again`);
    return takeRound(of, name, turns, taken);
  }
  const difference = differenceOf(done);
  if (difference === undefined) await taken.counts({ ...of, turns: done });
  else await reportVoid({ ...of, turns: done, ...difference }, taken);
}

/**
 * Describes how the requests per Echo of the turns differ; undefined if they do not. Ignores parts that a contender did
 * not run. Ours failed if they differ from those on which the others agree.
 */
export function differenceOf(turns: Round['turns']): Pick<VoidRound, 'failed' | 'reason'> | undefined {
  const counted = Object.entries(turns).flatMap(([contender, { requests }]) =>
    Object.entries(requests ?? {}).map(([scenario, count]) => ({ contender, scenario, count })),
  );
  for (const { scenario } of counted) {
    const same = counted.filter((other) => other.scenario === scenario);
    if (new Set(same.map(({ count }) => count)).size === 1) continue;
    const counts = same.map(({ contender, count }) => `${contender} ${count}`).join('; ');
    const reason = `requests per Echo differ (${scenario}): ${counts}`;
    return areOursAlone(same) ? { failed: 'echoperator', reason } : { reason };
  }
  return undefined;
}

/** Whether the others agree, and ours differs. A single other operator could be the wrong one. */
function areOursAlone(counted: readonly { readonly contender: string; readonly count: string }[]): boolean {
  const ours = counted.find(({ contender }) => contender === 'echoperator');
  const others = counted.filter(({ contender }) => contender !== 'echoperator');
  const [first] = others;
  return (
    ours !== undefined &&
    others.length > 1 &&
    first?.count !== ours.count &&
    others.every(({ count }) => count === first?.count)
  );
}

/** The figures that are printed after each turn. */
const shownOfTurns = [
  'echosPerSecond',
  'burstP50',
  'warmEchosPerSecond',
  'besideCpuPerEcho',
  'besideWarmCpuPerEcho',
  'besidePeakAnonymous',
  'longEchosPerSecond',
  'longP50',
  'pace60P99',
  'start',
  'cachedAnonymous',
  'longestPause',
  'eventCpu',
  'statusWrites',
  'jobsPerSecond',
  'idleLagP50',
  'burstLagP99',
  'coldHandover',
  'warmHandover',
  'coldCrash',
  'warmCrash',
  'nodeLoss',
  'coldIdleRequests',
  'warmIdleRequests',
  'rowsSeconds',
  'rowsCpu',
  'rowStatements',
  'rowsDatabaseMs',
  'petsPerSecond',
  'petsCpu',
  'neighborP50',
  'neighborP99',
  'refusedP50',
  'refusedP99',
  'refusedPerSecond',
  'recoveredShare',
  'recoveryOrder',
] as const;

function summary({ figures, disturbance }: Turn): string {
  const shown = shownOfTurns
    .filter((measure) => figures[measure] !== undefined)
    .map((measure) => `${measure} ${figures[measure]?.toFixed(0)}`);
  return [...shown, `others ${(disturbance * 100).toFixed(0)} %`].join(', ');
}
