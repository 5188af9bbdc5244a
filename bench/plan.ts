import type { OperatorName } from './operators.ts';

/** The size of a run. */
export interface Plan {
  /** Rounds of the burst and of the even paces. */
  readonly rounds: number;
  /** The contenders that take part only in the first of these rounds, and in no other scenario. */
  readonly someRounds: Readonly<Partial<Record<OperatorName | 'ceiling', number>>>;
  /** The number of Echos of the burst. */
  readonly burst: number;
  /** Rounds of our operator side by side with itself without its flight recorder; 0 for none. */
  readonly besideRounds: number;
  /** The number of Echos of each of them in each of their bursts. */
  readonly besideBurst: number;
  /** How long Echos are created at each even pace. */
  readonly paceSeconds: number;
  /** Rounds of the long burst; 0 for none. */
  readonly longRounds: number;
  /** The number of Echos of the long burst. */
  readonly longBurst: number;
  /** The numbers of cached objects, ascending: half of them Echos, half Jobs. */
  readonly cachedObjects: readonly number[];
  /** The one of these numbers whose figures are in the tables of all figures and comparisons. */
  readonly judgedObjects: number;
  /** Rounds with that number of cached objects. */
  readonly cacheRounds: number;
  /** Rounds with each of the other numbers. */
  readonly curveRounds: number;
  /** The numbers of cached objects with which the cost of an event is measured, ascending. */
  readonly eventObjects: readonly number[];
  /** Rounds that measure the cost of an event, with each number. */
  readonly eventCostRounds: number;
  /** Rounds of Echos until they succeed; 0 for none. */
  readonly lifecycleRounds: number;
  /** The number of Echos of their burst. */
  readonly lifecycleBurst: number;
  /** Rounds in which leaders are stopped; 0 for none. */
  readonly handoverRounds: number;
  /** Stopped leaders per turn, for cold and for warm standbys. */
  readonly handovers: number;
  /** Rounds in which a leader is killed; 0 for none. */
  readonly crashRounds: number;
  /** Rounds in which a leader's node is lost; 0 for none. */
  readonly nodeRounds: number;
  /** Echos created per second while leaders end. */
  readonly echosPerSecond: number;
  /** Rounds of idle groups; 0 for none. */
  readonly idleRounds: number;
  /** How long their requests are counted. */
  readonly idleSeconds: number;
  /** Rounds of the kinds with an external system; 0 for none. */
  readonly externalRounds: number;
  /** PostgresWriters per turn. */
  readonly postgresWriters: number;
  /** Pets per turn. */
  readonly pets: number;
  /** Rounds of a tenant beside a busy one; 0 for none. */
  readonly neighborRounds: number;
  /** Echos that the busy tenant creates at once. */
  readonly neighborObjects: number;
  /** Rounds of a tenant beside one whose Jobs the API server refuses; 0 for none. */
  readonly refusedRounds: number;
  /** Echos whose Jobs are refused. */
  readonly refusedObjects: number;
  /** How many rounds of each part may be run again because others disturbed them. */
  readonly repeats: number;
  /** The pause between an operator's sync and the reading of its memory. */
  readonly settleMs: number;
}

/** The time limit for serving a number of Echos: 33 Echos/s, plus a minute. */
export const timeoutMsFor = (echos: number): number => 60_000 + echos * 30;

/** A setting of the plan is invalid. The message names the variable. */
export class PlanError extends Error {
  override readonly name = 'PlanError';
}

/** No part takes more than 15 minutes on two cores, for which the bursts have few rounds. */
const usual: Plan = {
  rounds: 4,
  someRounds: { 'client-node': 1, 'controller-runtime-ryw': 1, unrecorded: 0, ceiling: 1 },
  burst: 2000,
  besideRounds: 3,
  besideBurst: 800,
  paceSeconds: 5,
  longRounds: 1,
  longBurst: 10_000,
  cachedObjects: [1000, 5000, 20_000, 50_000, 250_000],
  judgedObjects: 20_000,
  cacheRounds: 4,
  curveRounds: 2,
  eventObjects: [1000, 5000, 20_000, 50_000],
  eventCostRounds: 2,
  lifecycleRounds: 2,
  lifecycleBurst: 500,
  handoverRounds: 2,
  handovers: 3,
  crashRounds: 2,
  nodeRounds: 1,
  echosPerSecond: 20,
  idleRounds: 1,
  idleSeconds: 30,
  externalRounds: 2,
  postgresWriters: 2000,
  pets: 1000,
  neighborRounds: 1,
  neighborObjects: 50_000,
  refusedRounds: 1,
  refusedObjects: 10_000,
  repeats: 1,
  settleMs: 3000,
};

const quick: Plan = {
  rounds: 1,
  someRounds: { 'client-node': 1, 'controller-runtime-ryw': 1, unrecorded: 0, ceiling: 1 },
  burst: 200,
  besideRounds: 1,
  besideBurst: 100,
  paceSeconds: 1,
  longRounds: 0,
  longBurst: 10_000,
  cachedObjects: [1000, 2000],
  eventObjects: [1000, 2000],
  judgedObjects: 2000,
  cacheRounds: 1,
  curveRounds: 1,
  eventCostRounds: 1,
  lifecycleRounds: 1,
  lifecycleBurst: 30,
  handoverRounds: 1,
  handovers: 1,
  // The start of a cluster with kubelets alone takes a minute.
  crashRounds: 0,
  nodeRounds: 0,
  echosPerSecond: 20,
  idleRounds: 1,
  idleSeconds: 3,
  externalRounds: 1,
  postgresWriters: 200,
  pets: 100,
  neighborRounds: 1,
  neighborObjects: 6000,
  // The retries and the recovery take minutes.
  refusedRounds: 0,
  refusedObjects: 1000,
  repeats: 0,
  settleMs: 1500,
};

/**
 * Reads the plan from the environment. QUICK=1 selects a short run. ROUNDS, BURST, PACE_SECONDS, BESIDE_ROUNDS,
 * BESIDE_BURST, LONG_ROUNDS, LONG_BURST, CACHE_ROUNDS, CURVE_ROUNDS, EVENT_COST_ROUNDS, LIFECYCLE_ROUNDS,
 * HANDOVER_ROUNDS, CRASH_ROUNDS, NODE_ROUNDS, IDLE_ROUNDS, EXTERNAL_ROUNDS, POSTGRES_WRITERS, PETS, NEIGHBOR_ROUNDS,
 * NEIGHBOR_OBJECTS, REFUSED_ROUNDS and REFUSED_OBJECTS set single values.
 *
 * @throws PlanError
 */
export function readPlan(environment: NodeJS.ProcessEnv): Plan {
  const { QUICK } = environment;
  if (![undefined, '', '0', '1'].includes(QUICK)) throw new PlanError(`QUICK: got "${QUICK}", takes 1 or 0`);
  const plan = QUICK === '1' ? quick : usual;
  const setting = (variable: string, otherwise: number, least = 1): number =>
    whole(variable, environment[variable], least) ?? otherwise;
  return {
    ...plan,
    rounds: setting('ROUNDS', plan.rounds),
    burst: setting('BURST', plan.burst),
    besideRounds: setting('BESIDE_ROUNDS', plan.besideRounds, 0),
    besideBurst: setting('BESIDE_BURST', plan.besideBurst),
    paceSeconds: setting('PACE_SECONDS', plan.paceSeconds),
    longRounds: setting('LONG_ROUNDS', plan.longRounds, 0),
    longBurst: setting('LONG_BURST', plan.longBurst),
    cacheRounds: setting('CACHE_ROUNDS', plan.cacheRounds, 0),
    curveRounds: setting('CURVE_ROUNDS', plan.curveRounds, 0),
    eventCostRounds: setting('EVENT_COST_ROUNDS', plan.eventCostRounds, 0),
    lifecycleRounds: setting('LIFECYCLE_ROUNDS', plan.lifecycleRounds, 0),
    handoverRounds: setting('HANDOVER_ROUNDS', plan.handoverRounds, 0),
    crashRounds: setting('CRASH_ROUNDS', plan.crashRounds, 0),
    nodeRounds: setting('NODE_ROUNDS', plan.nodeRounds, 0),
    idleRounds: setting('IDLE_ROUNDS', plan.idleRounds, 0),
    externalRounds: setting('EXTERNAL_ROUNDS', plan.externalRounds, 0),
    postgresWriters: setting('POSTGRES_WRITERS', plan.postgresWriters),
    pets: setting('PETS', plan.pets),
    neighborRounds: setting('NEIGHBOR_ROUNDS', plan.neighborRounds, 0),
    neighborObjects: setting('NEIGHBOR_OBJECTS', plan.neighborObjects),
    refusedRounds: setting('REFUSED_ROUNDS', plan.refusedRounds, 0),
    refusedObjects: setting('REFUSED_OBJECTS', plan.refusedObjects),
  };
}

/**
 * Whether these values of a plan, those of a part, are at least as large as the usual ones. Only such a run is
 * published.
 */
export const isWhole = (plan: Plan, keys: readonly (keyof Plan)[]): boolean =>
  keys.every((key) => {
    const [value, least] = [plan[key], usual[key]];
    // The others are not set by variables.
    return typeof value !== 'number' || typeof least !== 'number' || value >= least;
  });

function whole(variable: string, text: string | undefined, least: number): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^\d{1,5}$/.test(text) || Number(text) < least)
    throw new PlanError(`${variable}: got "${text}", takes a whole number from ${least} to 99999`);
  return Number(text);
}
