/** The size of a run. */
export interface Plan {
  /** The number of rounds of all scenarios without their own number. */
  readonly rounds: number;
  /** The client-node peer takes part only in the first rounds, because it is much slower than the others. */
  readonly clientNodeRounds: number;
  /** The number of Echos of the burst. */
  readonly burst: number;
  /** How long 50 Echos per second are created. */
  readonly steadySeconds: number;
  /** How long Echos are created at 60 % of the highest rate of the slower of the Go and Rust peers. */
  readonly busySeconds: number;
  /** Rounds of the long burst, without the client-node peer; 0 for none. */
  readonly longRounds: number;
  /** The number of Echos of the long burst. */
  readonly longBurst: number;
  /** The number of cached Echos, each with its Job. */
  readonly cached: number;
  /** Rounds that measure the cost of an event. */
  readonly eventCostRounds: number;
  /** The numbers of cached Echos, each with its Job, while the cost of an event is measured. The first is the base of the ratios. */
  readonly eventCostSizes: readonly number[];
  /** Rounds in which leaders are stopped; 0 for none. */
  readonly handoverRounds: number;
  /** Stopped leaders per turn, for cold and for warm standbys. */
  readonly handovers: number;
  /** Rounds in which a leader is killed; 0 for none. */
  readonly crashRounds: number;
  /** Echos created per second while leaders end. */
  readonly echosPerSecond: number;
  /** Rounds of idle groups; 0 for none. */
  readonly idleRounds: number;
  /** How long their requests are counted. */
  readonly idleSeconds: number;
  /** Rounds of the kinds that live outside the cluster; 0 for none. */
  readonly outsideRounds: number;
  /** PostgresWriters per turn. */
  readonly postgresWriters: number;
  /** Pets per turn. */
  readonly pets: number;
  /** How many rounds may be run again because others disturbed them. */
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

const usual: Plan = {
  rounds: 7,
  clientNodeRounds: 3,
  burst: 2000,
  steadySeconds: 20,
  busySeconds: 10,
  longRounds: 3,
  longBurst: 10_000,
  cached: 10_000,
  eventCostRounds: 3,
  eventCostSizes: [1000, 10_000, 50_000],
  handoverRounds: 7,
  handovers: 3,
  crashRounds: 3,
  echosPerSecond: 20,
  idleRounds: 2,
  idleSeconds: 60,
  outsideRounds: 3,
  postgresWriters: 10_000,
  pets: 5000,
  // A round of all scenarios takes about four minutes.
  repeats: 2,
  settleMs: 5000,
};

const quick: Plan = {
  rounds: 1,
  clientNodeRounds: 1,
  burst: 300,
  steadySeconds: 3,
  busySeconds: 3,
  longRounds: 0,
  longBurst: 10_000,
  cached: 1000,
  eventCostRounds: 1,
  eventCostSizes: [1000, 5000],
  handoverRounds: 1,
  handovers: 1,
  // The start of a cluster with kubelets alone takes a minute.
  crashRounds: 0,
  echosPerSecond: 20,
  idleRounds: 1,
  idleSeconds: 5,
  outsideRounds: 1,
  postgresWriters: 300,
  pets: 150,
  repeats: 0,
  settleMs: 1000,
};

/**
 * Reads the plan from the environment. QUICK=1 selects a short run. ROUNDS, BURST, STEADY_SECONDS, LONG_ROUNDS, LONG_BURST, CACHED,
 * HANDOVER_ROUNDS, CRASH_ROUNDS, IDLE_ROUNDS, OUTSIDE_ROUNDS, POSTGRES_WRITERS and PETS set single values.
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
    steadySeconds: setting('STEADY_SECONDS', plan.steadySeconds),
    longRounds: setting('LONG_ROUNDS', plan.longRounds, 0),
    longBurst: setting('LONG_BURST', plan.longBurst),
    cached: setting('CACHED', plan.cached),
    handoverRounds: setting('HANDOVER_ROUNDS', plan.handoverRounds, 0),
    crashRounds: setting('CRASH_ROUNDS', plan.crashRounds, 0),
    idleRounds: setting('IDLE_ROUNDS', plan.idleRounds, 0),
    outsideRounds: setting('OUTSIDE_ROUNDS', plan.outsideRounds, 0),
    postgresWriters: setting('POSTGRES_WRITERS', plan.postgresWriters),
    pets: setting('PETS', plan.pets),
  };
}

/** Whether a run of this plan is at least as large as the usual one. Only such a run is published. */
export const isWhole = (plan: Plan): boolean => isWholeInside(plan) && isWholeOutside(plan);

/** The same, without the kinds that live outside the cluster. */
export const isWholeInside = (plan: Plan): boolean =>
  plan.rounds >= usual.rounds &&
  plan.clientNodeRounds >= usual.clientNodeRounds &&
  plan.burst >= usual.burst &&
  plan.steadySeconds >= usual.steadySeconds &&
  plan.longRounds >= usual.longRounds &&
  plan.longBurst >= usual.longBurst &&
  plan.cached >= usual.cached &&
  plan.handoverRounds >= usual.handoverRounds &&
  plan.handovers >= usual.handovers &&
  plan.crashRounds >= usual.crashRounds &&
  plan.echosPerSecond >= usual.echosPerSecond &&
  plan.idleRounds >= usual.idleRounds &&
  plan.idleSeconds >= usual.idleSeconds;

/** The same, only for the kinds that live outside the cluster. */
export const isWholeOutside = (plan: Plan): boolean =>
  plan.outsideRounds >= usual.outsideRounds && plan.postgresWriters >= usual.postgresWriters && plan.pets >= usual.pets;

function whole(variable: string, text: string | undefined, least: number): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^\d{1,5}$/.test(text) || Number(text) < least)
    throw new PlanError(`${variable}: got "${text}", takes a whole number from ${least} to 99999`);
  return Number(text);
}
