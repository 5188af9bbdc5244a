import { createClient } from '@echoperator/runtime/client';
import { Semaphore } from '@echoperator/runtime/controller';
import { common, numbered } from '../facts.ts';
import { SentTimes } from '../sent-times.ts';
import { allEnded, messageOf, PerturbationError } from './errors.ts';
import { isNamed, type Learned, type LearnedWrite, type Plan, plansOf, problemOfStates, textOf } from './plans.ts';
import { Run, type RunOptions } from './run.ts';
import type { PerturbOptions, Scenario } from './scenario.ts';

/** The result of {@link perturb}. */
export interface PerturbReport {
  /** The names of the plans that ran. */
  readonly plans: readonly string[];
  /** The writes that each undisturbed run sent. */
  readonly writes: WriteCounts;
  /** The writes that only some of the undisturbed runs sent. A perturbed run may not send them either. */
  readonly varyingWrites: WriteCounts;
  /**
   * The names of the plans that ran several times, and each time passed without their perturbation: its write was not
   * sent, or created the object that `overtaken` would have replaced.
   */
  readonly missed: readonly string[];
  /** One error per failed plan. Its message has the plan's name, the deviation and a timeline. */
  readonly failures: readonly PerturbationError[];
  readonly minutes: number;
}

/** How many writes plans were about, and how many of these writes were perturbed in at least one way. */
export interface WriteCounts {
  readonly planned: number;
  readonly perturbed: number;
}

/** How often each scenario runs undisturbed. What differs between the runs is not compared. */
const learningRuns = 3;

/** How often a plan runs whose write is not sent. */
const maxAttempts = 3;

/**
 * Perturbs an operator at every write, and its view of every kind in every step.
 *
 * Runs each scenario undisturbed to learn the operator's writes and the state after each step. Then repeats it once for
 * each write and each {@link WritePerturbation}, and once for each step, kind and {@link ViewPerturbation}. A plan
 * fails unless
 *
 * - after each step, the objects equal those of the undisturbed runs, apart from uids, versions, times and what differs
 *   between the undisturbed runs;
 * - in each step, each object was created and deleted as often as in the undisturbed runs (Events do not count, nor
 *   what the last step creates; not checked for `late` and `past`, because an operator may have to correct what a late
 *   write does, or what it did in the past);
 * - `lastTransitionTime` of a condition changes only with its status, unless another controller writes the object;
 * - nothing is left at the end, except objects that the garbage collector will delete;
 * - no reconcile panics, no rejection is unhandled, and after the step the operator sends no request for two seconds.
 *
 * From the perturbed step, a run goes straight to the last one.
 *
 * @throws PerturbationError if an undisturbed run fails, or does not restore what it should.
 * @throws RangeError for a cluster-scoped kind, and for a name of `only` that selects no plan.
 */
export async function perturb(options: PerturbOptions): Promise<PerturbReport> {
  const startedAtMs = performance.now();
  for (const { name, kinds } of options.scenarios) {
    const clusterScoped = kinds.find(({ scope }) => scope === 'Cluster');
    if (clusterScoped !== undefined)
      throw new RangeError(
        `${clusterScoped.kind} of the scenario ${name} is cluster-scoped: leave it out of \`kinds\`, and name its objects after the namespace`,
      );
  }
  const { connection, concurrency = 4, only, select = (names) => names } = options;
  const client = createClient(connection, { fieldManager: 'user' });
  const running = new Set<Run>();
  using sentTimes = new SentTimes();
  const runOptions = { ...options, client, running, sentTimes };
  // Nothing tells in which run it was.
  const failAll = (cause: unknown): void => {
    for (const run of running) run.fail(new Error('a rejection was not handled', { cause }));
  };
  process.on('unhandledRejection', failAll);
  try {
    const semaphore = new Semaphore(concurrency);
    const learned = await allEnded(options.scenarios.map((scenario) => learn(scenario, runOptions, semaphore)));
    const all = learned.flatMap(plansOf);
    const unknown = only?.find((name) => !all.some((plan) => isNamed(plan, name)));
    if (unknown !== undefined)
      throw new RangeError(`no plan is named ${JSON.stringify(unknown)}; one of them is ${all[0]?.name}`);
    const plans = all.filter((plan) => only?.some((name) => isNamed(plan, name)) ?? true);
    const selected = new Set(select(plans.map(({ name }) => name)));
    const chosen = plans.filter(({ name }) => selected.has(name));
    const results = await allEnded(chosen.map((plan) => tryPlan(plan, runOptions, semaphore)));
    return {
      plans: chosen.map(({ name }) => name),
      writes: countWrites(results, { isVarying: false }),
      varyingWrites: countWrites(results, { isVarying: true }),
      missed: results.filter(({ isHit, failure }) => !isHit && failure === undefined).map(({ plan }) => plan.name),
      failures: results.map(({ failure }) => failure).filter((failure) => failure !== undefined),
      minutes: (performance.now() - startedAtMs) / 60_000,
    };
  } finally {
    process.off('unhandledRejection', failAll);
    await client.close();
  }
}

function countWrites(results: readonly PlanResult[], { isVarying }: Pick<LearnedWrite, 'isVarying'>): WriteCounts {
  const count = (some: readonly PlanResult[]): number =>
    new Set(
      some.flatMap(({ plan: { target } }) =>
        target.type === 'write' && target.write.isVarying === isVarying ? [target.write] : [],
      ),
    ).size;
  return { planned: count(results), perturbed: count(results.filter(({ isHit }) => isHit)) };
}

type AllOptions = RunOptions & { readonly running: Set<Run> };

async function learn(scenario: Scenario, options: AllOptions, semaphore: Semaphore): Promise<Learned> {
  const runs = await allEnded(
    Array.from({ length: learningRuns }, () =>
      semaphore.use(async () => {
        const run = new Run(scenario, options);
        try {
          await execute(run, options);
        } catch (cause) {
          const message = `${scenario.name} fails undisturbed: ${messageOf(cause)}\n${run.timeline}`;
          throw new PerturbationError(message, { cause });
        }
        return run;
      }),
    ),
  );
  const steps = Object.keys(scenario.steps);
  const states = steps.map(
    (step) => [step, common(runs.map(({ recording }) => recording.states.get(step) ?? new Map()))] as const,
  );
  const problem = problemOfStates(scenario, new Map(states));
  if (problem !== undefined) throw new PerturbationError(problem);
  return {
    scenario,
    steps: states.map(([name, state]) => ({
      name,
      state,
      writes: learnedWrites(runs.map(({ recording }) => recording.writes.get(name) ?? [])),
      eventKinds: scenario.kinds.filter(({ kind }) =>
        runs.every(({ recording }) => recording.eventKinds.get(name)?.has(kind)),
      ),
    })),
    changes: common(runs.map(({ recording }) => recording.changes.facts)),
  };
}

/** @param sent the descriptions of the writes in a step, by run */
function learnedWrites(sent: readonly (readonly string[])[]): readonly LearnedWrite[] {
  const runs = sent.map(numbered);
  const all = [...new Set(runs.flat())].map((write): LearnedWrite => {
    const [description = '', occurrence] = write.split(' #');
    const isVarying = runs.some((run) => !run.includes(write));
    return { description, occurrence: Number(occurrence), isVarying };
  });
  return [...all.filter(({ isVarying }) => !isVarying), ...all.filter(({ isVarying }) => isVarying)];
}

interface PlanResult {
  readonly plan: Plan;
  /** Whether the perturbation took place. */
  readonly isHit: boolean;
  readonly failure: PerturbationError | undefined;
}

/** Runs a plan, and again if its write was not sent. */
async function tryPlan(plan: Plan, options: AllOptions, semaphore: Semaphore): Promise<PlanResult> {
  for (let attempt = 1; ; attempt++) {
    const result = await semaphore.use(() => runPlan(plan, options));
    if (result.failure !== undefined) options.onFailure?.(result.failure);
    if (result.isHit || result.failure !== undefined || attempt === maxAttempts) return result;
  }
}

async function runPlan(plan: Plan, options: AllOptions): Promise<PlanResult> {
  const run = new Run(plan.learned.scenario, options, plan);
  try {
    await execute(run, options);
    return { plan, isHit: run.isHit, failure: undefined };
  } catch (cause) {
    const write = plan.target.type === 'write' ? ` (${textOf(plan.target.write)})` : '';
    const failure = new PerturbationError(`${plan.name}${write}: ${messageOf(cause)}\n${run.timeline}`, { cause });
    return { plan, isHit: run.isHit, failure };
  }
}

async function execute(run: Run, { running }: AllOptions): Promise<void> {
  running.add(run);
  try {
    await run.execute();
  } finally {
    running.delete(run);
  }
}
