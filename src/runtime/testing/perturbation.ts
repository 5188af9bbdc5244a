import { createClient } from '../client/create-client.ts';
import { common, differenceOf, numbered } from './facts.ts';
import { allEnded, messageOf, PerturbationError } from './perturbation-errors.ts';
import { countWrites, type Learned, type Plan, plansOf, withoutGenerations } from './perturbation-plans.ts';
import { Run, type RunOptions } from './perturbation-run.ts';
import type { PerturbOptions, Scenario } from './perturbation-scenario.ts';

/** The result of {@link perturb}. */
export interface PerturbReport {
  /** The names of the plans that ran. */
  readonly plans: readonly string[];
  /** How many writes each undisturbed run sent, how many of them a plan perturbed, and how many only some of these runs sent. */
  readonly writes: { readonly learned: number; readonly perturbed: number; readonly varying: number };
  /** One error per failed plan. Its message has the plan's name, the deviation and a timeline. */
  readonly failures: readonly PerturbationError[];
  readonly minutes: number;
}

/** How often each scenario runs undisturbed. What differs between the runs is not compared. */
const learningRuns = 3;

/**
 * Perturbs an operator at every write, and its view of every kind in every step.
 *
 * Runs each scenario undisturbed to learn the operator's writes and the state after each step. Then repeats it once for each
 * write and each {@link WritePerturbation}, and once for each step, kind and {@link ViewPerturbation}. A plan fails unless
 *
 * - after each step, the objects equal those of the undisturbed runs, apart from uids, versions, times and what differs
 *   between the undisturbed runs;
 * - each object was created and deleted as often as in the undisturbed runs (Events do not count, nor what the last step creates; not
 *   checked for `late`, because an operator may have to correct what a late write does);
 * - `lastTransitionTime` of a condition changes only with its status, unless another controller writes the object;
 * - nothing is left at the end, except objects that the garbage collector will delete;
 * - no reconcile panics, and at the end the operator sends no request for two seconds.
 *
 * @throws PerturbationError if an undisturbed run fails, or does not restore what it should.
 */
export async function perturb(options: PerturbOptions): Promise<PerturbReport> {
  const startedAtMs = performance.now();
  const { connection, concurrency = 4 } = options;
  const client = createClient(connection, { fieldManager: 'user' });
  try {
    const run = concurrently(concurrency);
    const learned = await allEnded(options.scenarios.map((scenario) => learn(scenario, { ...options, client }, run)));
    const plans = learned.flatMap(plansOf);
    const { select = (names) => names } = options;
    const selected = new Set(select(plans.map(({ name }) => name)));
    const chosen = plans.filter(({ name }) => selected.has(name));
    const results = await allEnded(chosen.map((plan) => run(() => failureOf(plan, { ...options, client }))));
    const failures = results.filter((error) => error !== undefined);
    return {
      plans: chosen.map(({ name }) => name),
      writes: {
        learned: countWrites(plans),
        perturbed: countWrites(chosen),
        varying: learned.reduce((sum, { varyingWrites }) => sum + varyingWrites, 0),
      },
      failures,
      minutes: (performance.now() - startedAtMs) / 60_000,
    };
  } finally {
    await client.close();
  }
}

/** Starts a piece of work as soon as fewer than the limit run. */
type Limit = <R>(work: () => Promise<R>) => Promise<R>;

function concurrently(limit: number): Limit {
  let free = limit;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}

async function learn(scenario: Scenario, options: RunOptions, limit: Limit): Promise<Learned> {
  const runs = await allEnded(
    Array.from({ length: learningRuns }, () =>
      limit(async () => {
        const run = new Run(scenario, options);
        try {
          await run.execute();
        } catch (cause) {
          const message = `${scenario.name} fails undisturbed: ${messageOf(cause)}\n${run.timeline}`;
          throw new PerturbationError(message, { cause });
        }
        return run;
      }),
    ),
  );
  const steps = Object.keys(scenario.steps);
  const states = steps.map((step) => [step, common(runs.map(({ states }) => states.get(step) ?? new Map()))] as const);
  const last = steps.at(-1) ?? '';
  const left = [...(states.at(-1)?.[1].keys() ?? [])];
  if (left.length > 0) {
    throw new PerturbationError(`${scenario.name}: the last step, ${last}, must delete everything; left: ${left[0]}`);
  }
  const restorable = new Map(states.map(([step, facts]) => [step, withoutGenerations(facts)]));
  for (const [step, earlier] of Object.entries(scenario.restores ?? {})) {
    const difference = differenceOf(restorable.get(earlier) ?? new Map(), restorable.get(step) ?? new Map());
    if (difference === undefined) continue;
    throw new PerturbationError(`${scenario.name}/${step} must restore the state after ${earlier}: ${difference}`);
  }
  const writesOf = (run: Run, step: string): readonly string[] => numbered(run.writes.get(step) ?? []);
  const writes = steps.map((step) => {
    const [first = [], ...others] = runs.map((run) => writesOf(run, step));
    return [step, first.filter((write) => others.every((other) => other.includes(write)))] as const;
  });
  const sent = steps.flatMap((step) => [...new Set(runs.flatMap((run) => writesOf(run, step)))]);
  return {
    scenario,
    states: new Map(states),
    writes: new Map(writes),
    varyingWrites: sent.length - writes.flatMap(([, each]) => each).length,
    changes: common(runs.map(({ changes }) => changes)),
  };
}

async function failureOf(plan: Plan, options: RunOptions): Promise<PerturbationError | undefined> {
  const run = new Run(plan.learned.scenario, options, plan);
  try {
    await run.execute();
    return undefined;
  } catch (cause) {
    const write = plan.target.type === 'write' ? ` (${plan.target.description})` : '';
    return new PerturbationError(`${plan.name}${write}: ${messageOf(cause)}\n${run.timeline}`, { cause });
  }
}
