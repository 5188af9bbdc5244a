/** The rounds of a run: their contenders, their order, and whether a round counts. */

import { ceilingTurn } from './ceiling.ts';
import { disturbed } from './disturbance.ts';
import { type EventCost, eventCostTurn } from './event-cost/index.ts';
import { CrashCluster, crashTurn, type Electing, electing, handoverTurn, idleTurn } from './failover/index.ts';
import type { Operator } from './operators.ts';
import { bareTurn, outsideTurn, subjects } from './outside/index.ts';
import { readRequests } from './requests.ts';
import type { Contender, Round, Turn, VoidRound } from './results.ts';
import { TurnError } from './running-operator.ts';
import {
  cachedPrefix,
  cacheTurn,
  loadTurn,
  longBurstTurn,
  maximumRate,
  populatedServer,
  type RunContext,
} from './turns.ts';

/** Receives each round when it is over. */
export interface RoundsTaken {
  counts(round: Round): Promise<void>;
  isVoid(round: VoidRound): Promise<void>;
  /** Whether a disturbed round is run again instead of being counted. */
  isRepeated(): Promise<boolean>;
}

/** Reverses every other round (ABBA), so that a machine that warms up or slows down favours no contender. */
export const inOrder = <T>(items: readonly T[], round: number): readonly T[] =>
  round % 2 === 0 ? items : [...items].reverse();

/** Returns the operators of a round. The client-node peer takes part only in the first rounds. */
export const takingPart = (operators: readonly Operator[], round: number, clientNodeRounds: number) =>
  operators.filter(({ name }) => name !== 'client-node' || round < clientNodeRounds);

const kubernetesClients = ['controller-runtime', 'kube-rs'];

/**
 * Returns 60 % of the highest rate of the slower of the Go and Rust peers, in Echos per second. Measures it with a burst of each before the
 * rounds, so that all rounds have the same pace. Undefined if neither peer takes part.
 */
export async function busyPace(operators: readonly Operator[], context: RunContext): Promise<number | undefined> {
  const rates: number[] = [];
  for (const operator of operators.filter(({ name }) => kubernetesClients.includes(name))) {
    const rate = await maximumRate(operator, context);
    console.error(`${operator.name}: up to ${rate.toFixed(0)} Echos/s`);
    rates.push(rate);
  }
  return rates.length === 0 ? undefined : Math.max(1, Math.round(Math.min(...rates) * 0.6));
}

/** Idle, bursts and even paces. Each round also measures the API server's limit, if there are paces. */
export async function loadRounds(
  operators: readonly Operator[],
  busyPerSecond: number | undefined,
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { rounds, clientNodeRounds } = context.plan;
  for (let round = 0; round < rounds; round++) {
    const turns: [Contender, () => Promise<Turn>][] = takingPart(operators, round, clientNodeRounds).map((operator) => [
      operator.name,
      () => loadTurn(operator, busyPerSecond, context),
    ]);
    if (busyPerSecond !== undefined) turns.push(['ceiling', () => ceilingTurn(context)]);
    await takeRound('load', `round ${round + 1} of ${rounds}`, inOrder(turns, round), taken);
  }
}

export async function longBurstRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { longRounds } = context.plan;
  for (let round = 0; round < longRounds; round++) {
    const turns: [Contender, () => Promise<Turn>][] = takingPart(operators, round, 0).map((operator) => [
      operator.name,
      () => longBurstTurn(operator, context),
    ]);
    await takeRound('long burst', `long burst ${round + 1} of ${longRounds}`, inOrder(turns, round), taken);
  }
}

/** Memory and start with many cached objects. All operators use one populated server, and only read. */
export async function cacheRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { rounds, clientNodeRounds, cached } = context.plan;
  console.error(`Creating ${cached} Echos with their Jobs, to be cached`);
  const server = await populatedServer(context);
  try {
    for (let round = 0; round < rounds; round++) {
      const turns: [Contender, () => Promise<Turn>][] = takingPart(operators, round, clientNodeRounds).map(
        (operator) => [operator.name, () => cacheTurn(operator, server, context)],
      );
      await takeRound('cache', `cached ${round + 1} of ${rounds}`, inOrder(turns, round), taken);
    }
  } finally {
    await server.stop();
  }
  // All objects are up to date, so a restart must not write.
  const { counts } = await readRequests(server.auditLog, cachedPrefix);
  if (counts.size > 0) {
    const reason = `a restart sent requests: ${JSON.stringify([...counts])}`;
    await reportVoid({ scenario: 'restart', turns: {}, reason }, taken);
  }
}

/** Stopped leaders, idle groups and killed leaders, of the operators with leader election. */
export async function failoverRounds(
  operators: readonly Operator[],
  context: RunContext,
  taken: RoundsTaken,
): Promise<void> {
  const { handoverRounds, crashRounds, idleRounds } = context.plan;
  const who = electing(operators);
  const take = async (scenario: Round['scenario'], rounds: number, turn: (one: Electing) => Promise<Turn>) => {
    for (let round = 0; round < rounds; round++) {
      const turns = who.map((one) => [one.operator.name, () => turn(one)] as const);
      await takeRound(scenario, `${scenario} ${round + 1} of ${rounds}`, inOrder(turns, round), taken);
    }
  };
  await take('handover', handoverRounds, (one) => handoverTurn(one, context));
  await take('idle group', idleRounds, (one) => idleTurn(one, context));
  if (crashRounds === 0) return;
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
  } finally {
    await on.down();
  }
}

/** Our operator with the kinds that live outside the cluster. Each round also measures only their writes to the API server. */
export async function outsideRounds(ours: Operator, context: RunContext, taken: RoundsTaken): Promise<void> {
  const { outsideRounds: rounds } = context.plan;
  for (let round = 0; round < rounds; round++) {
    for (const subject of inOrder(subjects, round)) {
      const turns: [Contender, () => Promise<Turn>][] = [
        [ours.name, () => outsideTurn(subject, ours, context)],
        ['ceiling', () => bareTurn(subject, context)],
      ];
      const { scenario } = subject;
      await takeRound(scenario, `${scenario} ${round + 1} of ${rounds}`, inOrder(turns, round), taken);
    }
  }
}

/** Our operator's cost of an event, with few and with many cached objects. @param keep receives each figure when it is measured */
export async function eventCosts(
  ours: Operator,
  { plan, folder, signal }: RunContext,
  keep: (cost: EventCost) => Promise<void>,
  taken: RoundsTaken,
): Promise<void> {
  for (let round = 0; round < plan.eventCostRounds; round++) {
    for (const size of inOrder(plan.eventCostSizes, round)) {
      try {
        const cost = await eventCostTurn(ours, size, folder, signal);
        console.error(`an event with ${size} Echos and Jobs cached: ${(cost.cpuPerEvent * 1000).toFixed(1)} µs of CPU`);
        await keep(cost);
      } catch (error) {
        if (!(error instanceof TurnError)) throw error;
        await reportVoid({ scenario: 'cost of an event', turns: {}, reason: error.message }, taken);
      }
    }
  }
}

async function reportVoid(lost: VoidRound, taken: RoundsTaken): Promise<void> {
  console.error(`${lost.scenario}: void: ${lost.reason}`);
  await taken.isVoid(lost);
}

/** Takes the turns of a round, again if others disturbed it, and reports the round as counted or void. */
export async function takeRound(
  scenario: Round['scenario'],
  name: string,
  turns: readonly (readonly [Contender, () => Promise<Turn>])[],
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
      await reportVoid({ scenario, turns: done, failed: contender, reason: error.message }, taken);
      return;
    }
  }
  if (Object.values(done).some(({ disturbance }) => disturbance > disturbed) && (await taken.isRepeated())) {
    console.error(`${name}: others disturbed it: again`);
    return takeRound(scenario, name, turns, taken);
  }
  const difference = differenceOf(done);
  if (difference === undefined) await taken.counts({ scenario, turns: done });
  else await reportVoid({ scenario, turns: done, reason: difference }, taken);
}

/** Describes how the requests per Echo of the turns differ; undefined if they do not. Ignores parts that a contender did not run. */
export function differenceOf(turns: Round['turns']): string | undefined {
  const counted = Object.entries(turns).flatMap(([contender, { requests }]) =>
    Object.entries(requests ?? {}).map(([scenario, count]) => ({ contender, scenario, count })),
  );
  for (const { scenario } of counted) {
    const same = counted.filter((other) => other.scenario === scenario);
    if (new Set(same.map(({ count }) => count)).size === 1) continue;
    return `requests an Echo differ (${scenario}): ${same.map(({ contender, count }) => `${contender} ${count}`).join('; ')}`;
  }
  return undefined;
}

/** The figures that are printed after each turn. */
const shownOfTurns = [
  'echosPerSecond',
  'burstP50',
  'warmEchosPerSecond',
  'longEchosPerSecond',
  'longP50',
  'start',
  'cachedMemory',
  'coldHandover',
  'warmHandover',
  'coldCrash',
  'warmCrash',
  'coldIdleRequests',
  'warmIdleRequests',
  'rowsSeconds',
  'rowsCpu',
  'rowStatements',
  'rowsDatabaseMs',
  'petsPerSecond',
  'petsCpu',
] as const;

function summary({ figures, disturbance }: Turn): string {
  const shown = shownOfTurns
    .filter((measure) => figures[measure] !== undefined)
    .map((measure) => `${measure} ${figures[measure]?.toFixed(0)}`);
  return [...shown, `others ${(disturbance * 100).toFixed(0)} %`].join(', ');
}
