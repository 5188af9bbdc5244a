/** The rounds of a run: who takes part in which, in which order, and whether a round counts. */

import { ceilingTurn } from './ceiling.ts';
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

/** Is given each round as soon as it is over. */
export interface RoundsTaken {
  counts(round: Round): Promise<void>;
  isVoid(round: VoidRound): Promise<void>;
}

/** ABBA: every other round the other way round, so that a machine that warms up or slows down favours nobody. */
export const inOrder = <T>(items: readonly T[], round: number): readonly T[] =>
  round % 2 === 0 ? items : [...items].reverse();

/** Those who take part in a round: the client-node peer only in the first ones. */
export const takingPart = (operators: readonly Operator[], round: number, clientNodeRounds: number) =>
  operators.filter(({ name }) => name !== 'client-node' || round < clientNodeRounds);

const kubernetesClients = ['controller-runtime', 'kube-rs'];

/**
 * 60 % of what the slower of the Go and Rust peers can do, Echos a second, from a burst of each before the rounds: the
 * pace must be the same in all of them. Undefined where neither takes part.
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

/** Idle, burst and even paces; in each round also what the API server leaves possible. */
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
    turns.push(['ceiling', () => ceilingTurn(context)]);
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

/** Memory and start with many objects cached, all on one server that has been filled: operators only read there. */
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
  // A restart finds everything as it should be.
  const { counts } = await readRequests(server.auditLog, cachedPrefix);
  if (counts.size > 0) {
    const reason = `a restart sent requests: ${JSON.stringify([...counts])}`;
    await giveUp({ scenario: 'restart', turns: {}, reason }, taken);
  }
}

/** Leaders that are asked to stop, leaders that are killed, and groups that have nothing to do: of those that can stand by. */
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
    await giveUp({ scenario: 'crash', turns: {}, reason: error.message }, taken);
    return;
  }
  try {
    await take('crash', crashRounds, (one) => crashTurn(one, on, context));
  } finally {
    await on.down();
  }
}

/** Our operator with kinds that live outside of the cluster; in each round also the same writes with nothing outside. */
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

/** Our operator with few and with many objects cached. @param keep is given each figure as soon as it is there */
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
        await giveUp({ scenario: 'cost of an event', turns: {}, reason: error.message }, taken);
      }
    }
  }
}

async function giveUp(lost: VoidRound, taken: RoundsTaken): Promise<void> {
  console.error(`${lost.scenario}: void, for ${lost.reason}`);
  await taken.isVoid(lost);
}

async function takeRound(
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
      // Half an hour of other rounds is not to be lost with it.
      await giveUp({ scenario, turns: done, reason: error.message }, taken);
      return;
    }
  }
  const difference = differenceOf(done);
  if (difference === undefined) await taken.counts({ scenario, turns: done });
  else await giveUp({ scenario, turns: done, reason: difference }, taken);
}

/** How the requests an Echo of these turns differ; undefined: they do not. What one has not done is no difference. */
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

/** The few figures of a turn that are told as soon as it is over. */
const shownOfTurns = [
  'echosPerSecond',
  'burstP50',
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
