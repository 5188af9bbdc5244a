/** How much a run of the bench does. */
export interface Plan {
  readonly rounds: number;
  /** Echos of the burst. */
  readonly burst: number;
  /** How long 50 Echos a second are created. */
  readonly steadySeconds: number;
  /** Echos, each with its Job, of the server whose content is cached. */
  readonly cached: number;
}

/** How long an operator may take for what has been created; then the bench fails: 33 Echos/s and a minute to spare. */
export const turnTimeoutMs = ({ burst }: Plan): number => 60_000 + burst * 30;

/** The plans' settings are wrong. The message names the variable. */
export class PlanError extends Error {
  override readonly name = 'PlanError';
}

const usual: Plan = { rounds: 7, burst: 2000, steadySeconds: 30, cached: 10_000 };
const quick: Plan = { rounds: 2, burst: 500, steadySeconds: 6, cached: 1000 };

/**
 * QUICK=1: less of everything, under 5 minutes. BURST and ROUNDS change these alone: BURST=10000 is the long form.
 *
 * @throws PlanError
 */
export function readPlan(environment: NodeJS.ProcessEnv): Plan {
  const { QUICK, ROUNDS, BURST, STEADY_SECONDS, CACHED } = environment;
  if (![undefined, '', '0', '1'].includes(QUICK)) throw new PlanError(`QUICK: got "${QUICK}", takes 1 or 0`);
  const plan = QUICK === '1' ? quick : usual;
  return {
    ...plan,
    rounds: positive('ROUNDS', ROUNDS) ?? plan.rounds,
    burst: positive('BURST', BURST) ?? plan.burst,
    steadySeconds: positive('STEADY_SECONDS', STEADY_SECONDS) ?? plan.steadySeconds,
    cached: positive('CACHED', CACHED) ?? plan.cached,
  };
}

function positive(variable: string, text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^[1-9]\d{0,4}$/.test(text))
    throw new PlanError(`${variable}: got "${text}", takes a whole number from 1 to 99999`);
  return Number(text);
}
