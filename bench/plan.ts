/** How much a run of the bench does. */
export interface Plan {
  /** Rounds of everything that has no number of its own. */
  readonly rounds: number;
  /** In how many of them, the first ones, the client-node peer takes part: it is far from the others, and slow. */
  readonly clientNodeRounds: number;
  /** Echos of the burst. */
  readonly burst: number;
  /** How long 50 Echos a second are created. */
  readonly steadySeconds: number;
  /** How long Echos are created at 60 % of the rate that the slower of the Go and Rust peers can do. */
  readonly busySeconds: number;
  /** Rounds of the long burst, 0 for none; the client-node peer has no part in it. */
  readonly longRounds: number;
  /** Echos of the long burst. */
  readonly longBurst: number;
  /** Echos, each with its Job, of the server whose content is cached. */
  readonly cached: number;
  /** Rounds of the cost of an event. */
  readonly eventCostRounds: number;
  /** How many Echos, each with its Job, are cached while the cost of an event is measured; first what the others are compared with. */
  readonly eventCostSizes: readonly number[];
  /** Rounds of leaders that are asked to stop, 0 for none. */
  readonly handoverRounds: number;
  /** How many of them one after the other in a turn, for cold standbys and for warm ones. */
  readonly handovers: number;
  /** Rounds of leaders that are killed, 0 for none. */
  readonly crashRounds: number;
  /** How many Echos a second come while leaders end. */
  readonly echosPerSecond: number;
  /** Rounds of groups that have nothing to do, 0 for none. */
  readonly idleRounds: number;
  /** How long their requests are counted. */
  readonly idleSeconds: number;
  /** Rounds of the kinds that live outside of the cluster, 0 for none. */
  readonly outsideRounds: number;
  /** How many PostgresWriters there are in a turn. */
  readonly postgresWriters: number;
  /** How many Pets there are in a turn. */
  readonly pets: number;
  /** How long an operator that has synced is left alone before its memory is read. */
  readonly settleMs: number;
}

/** How long an operator may take for so many Echos; then its turn has failed: 33 Echos/s and a minute to spare. */
export const timeoutMsFor = (echos: number): number => 60_000 + echos * 30;

/** The plan's settings are wrong. The message names the variable. */
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
  // A cluster with kubelets is a minute's work by itself.
  crashRounds: 0,
  echosPerSecond: 20,
  idleRounds: 1,
  idleSeconds: 5,
  outsideRounds: 1,
  postgresWriters: 300,
  pets: 150,
  settleMs: 1000,
};

/**
 * QUICK=1: less of everything, within 5 minutes. ROUNDS, BURST, STEADY_SECONDS, LONG_ROUNDS, LONG_BURST, CACHED,
 * HANDOVER_ROUNDS, CRASH_ROUNDS, IDLE_ROUNDS, OUTSIDE_ROUNDS, POSTGRES_WRITERS and PETS change these alone.
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

/** Whether a run of this plan shows no less than the usual one: only then is it worth publishing. */
export const isWhole = (plan: Plan): boolean => isWholeInside(plan) && isWholeOutside(plan);

/** The same without the kinds that live outside of the cluster. */
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

/** The same of them alone. */
export const isWholeOutside = (plan: Plan): boolean =>
  plan.outsideRounds >= usual.outsideRounds && plan.postgresWriters >= usual.postgresWriters && plan.pets >= usual.pets;

function whole(variable: string, text: string | undefined, least: number): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^\d{1,5}$/.test(text) || Number(text) < least)
    throw new PlanError(`${variable}: got "${text}", takes a whole number from ${least} to 99999`);
  return Number(text);
}
