import type { CustomKind, Kind, KubeObject, Operator } from '@echoperator/runtime';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { isCustomKind } from '@echoperator/runtime/internal';
import type { Arbitrary } from 'fast-check';
import { common, differenceOf, type Facts, factsOf, type ListedObject } from '../facts.ts';
import { TransitionTimes } from '../perturb/oracles.ts';
import { problemOfStates, withoutGenerations } from '../perturb/plans.ts';
import type { Scenario, ScenarioWorld } from '../perturb/scenario.ts';
import type { MissedChange } from './process-oracle.ts';
import type { SimulationStep } from './simulated-network.ts';
import { type ClusterOptions, DirectedSimulation, inVirtualTime, type Simulation, StoryError } from './simulation.ts';

/** Options of {@link explore}. */
export interface ExploreOptions extends ClusterOptions {
  /** The scenario, as for `perturb`, but without another system. */
  readonly scenario: Scenario;
  /** Custom kinds that the server serves in addition to those of the scenario. Default: none. */
  readonly customKinds?: readonly CustomKind[];
  /** How many schedules to try. Default 100. */
  readonly runs?: number;
  /**
   * How many processes of the operator run. A process that ends is started again. Default 1; more require leader
   * election.
   */
  readonly replicas?: number;
  /** How many crashes, broken connections, cut-off processes and compactions a schedule may have. Default 2. */
  readonly maxDisturbances?: number;
  /**
   * Whether a controller may miss a change, because a predicate rejects it. By default, each change of an object, or of
   * a child that it controls and whose kind the controller watches, must be followed by a reconcile that sees the
   * change. The process's own changes, and changes that the predicate of the controller's own kind rejects, are
   * excepted.
   */
  readonly mayMiss?: (change: MissedChange) => boolean;
  /**
   * Whether to look for a shorter failing schedule. This takes more than ten times as long as finding the first one.
   * Default true.
   */
  readonly shortens?: boolean;
  /** Is called for the first random schedule that fails, before it is shortened, because that may take minutes. */
  readonly onFailure?: (failure: ExplorationError) => void;
  /**
   * Instead of random schedules, tries every schedule that differs from the undisturbed run in at most this many
   * choices. A choice in a state that was seen before is not tried again. A state consists of the objects, and the
   * requests and events in flight, but not of a process's other memory. With 1, a scenario takes some hundred
   * schedules.
   */
  readonly maxDeviations?: number;
  /** Tries only this schedule, for example that of an {@link ExplorationError}. */
  readonly schedule?: readonly number[];
}

/** How many deviations a message names. */
const maxDeviationLines = 20;

/**
 * A schedule after which an operator behaves differently from the undisturbed run. The message has the last steps, and
 * the choices that deviate from the undisturbed schedule.
 */
export class ExplorationError extends Error {
  override readonly name = 'ExplorationError';
  /** Reproduces the failure: {@link ExploreOptions.schedule}. */
  readonly schedule: readonly number[];
  /** The steps of the run, one per line. */
  readonly story: readonly string[];

  constructor(
    message: string,
    run: {
      readonly schedule: readonly number[];
      readonly story: readonly string[];
      readonly deviations: readonly string[];
    },
    cause: unknown,
  ) {
    const { schedule, story, deviations } = run;
    const omitted = deviations.length - maxDeviationLines;
    const lines = [
      message,
      `schedule: [${schedule.join(', ')}]`,
      'Deviations from the undisturbed schedule:',
      ...(omitted > 0 ? [`  (${omitted} earlier ones)`] : []),
      ...deviations.slice(-maxDeviationLines).map((line) => `  ${line}`),
      `All ${story.length} steps: \`story\` of this error.`,
    ];
    super(lines.join('\n'), { cause });
    this.schedule = schedule;
    this.story = story;
  }
}

/** The result of {@link explore}. */
export interface ExploreReport {
  /** How many schedules were tried. */
  readonly runs: number;
  /** The total number of their steps. */
  readonly steps: number;
}

/** How many undisturbed runs are compared to find values that differ between any two runs. */
const learningRuns = 3;

/**
 * How long an undisturbed run waits after a step, in milliseconds. It has no expected state to wait for, and an
 * operator may write its progress later.
 */
const learningRestMs = 1500;

/** How long steps happen in any order before the objects must be right, in milliseconds. */
const maxDisorderMs = 60_000;

/**
 * How long an operator may back off after that, in milliseconds. Shorter than its resyncs, which would hide that it did
 * not retry.
 */
const maxRecoveryMs = 180_000;

/**
 * The time within which an operator does all postponed work, such as the next attempt of a failed watch, in
 * milliseconds. Then it must be at rest.
 */
const maxDelayMs = 65_000;

/**
 * How long an operator at rest must send nothing, apart from renewals of its Lease and of its watches, and final counts
 * of Events, in milliseconds.
 */
const restMs = 5000;

/** How long a process is cut off, in milliseconds. By default, a Lease expires after 15 seconds. */
const cutOffMs = 40_000;

/** The limit for all schedules and their shortening, in milliseconds. */
const maxMs = 300_000;

const namespace = 'default';

/**
 * Runs a scenario undisturbed, and then under random schedules. Requests, responses and events of watches arrive in any
 * order and at any time, timers fire early, and connections break. One of several processes is cut off for a while. The
 * operator crashes and restarts. A schedule fails unless
 *
 * - after each step, the objects become equal to those of the undisturbed run, apart from uids, versions, times and
 *   generations;
 * - the scenario's `always` holds after each change. After the server has processed a late write of a crashed process,
 *   `always` need not hold before the objects are right;
 * - nothing is left at the end, except objects that the garbage collector will delete;
 * - no reconcile panics, and an operator at rest sends nothing;
 * - at rest, the caches of each process equal the server, and each change by another client has been reconciled: see
 *   {@link ExploreOptions.mayMiss};
 * - at rest, a status has the object's generation, and `lastTransitionTime` of a condition changes only with its
 *   status;
 * - at any time, caches show what reconciles have written, and never go back in time, and at most one process leads.
 *
 * If the scenario has `perturbedSteps`, only these are disturbed. `mayOmitWrites` does not matter, because only the
 * resulting objects are compared. A failing schedule is shortened before it is reported.
 *
 * @throws ExplorationError; Error if the undisturbed run fails; TypeError for a scenario with another system, or one
 *   that changes definitions.
 */
export async function explore(options: ExploreOptions): Promise<ExploreReport> {
  requireSimulated(options.scenario);
  const learned = await learn(options);
  if (options.schedule !== undefined) {
    const { story } = await runSchedule(options, options.schedule, learned);
    return { runs: 1, steps: story.length };
  }
  if (options.maxDeviations !== undefined) return exploreAll(options, options.maxDeviations, learned);
  const fc = await import('fast-check');
  const choice: Arbitrary<number> = fc.oneof(
    { weight: 3, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 997 }) },
  );
  let steps = 0;
  let hasFailed = false;
  const property = fc.asyncProperty(fc.array(choice, { maxLength: 200, size: 'max' }), async (schedule) => {
    try {
      steps += (await runSchedule(options, schedule, learned)).story.length;
    } catch (error) {
      if (!hasFailed && error instanceof ExplorationError) options.onFailure?.(error);
      hasFailed = true;
      throw error;
    }
  });
  const { seed = 1, runs = 100 } = options;
  const { failed, counterexample, errorInstance, numRuns } = await fc.check(property, {
    seed,
    numRuns: runs,
    endOnFailure: !(options.shortens ?? true),
    // Do not use interruptAfterTimeLimit, which would leave a run behind.
    skipAllAfterTimeLimit: maxMs,
  });
  if (failed && counterexample !== null) throw errorInstance;
  return { runs: numRuns, steps };
}

/** Searches the choices depth first. */
async function exploreAll(
  options: ExploreOptions,
  maxDeviations: number,
  learned: ReadonlyMap<string, Facts>,
): Promise<ExploreReport> {
  const seen = new Set<string>();
  const prefixes: { readonly schedule: readonly number[]; readonly deviations: number }[] = [
    { schedule: [], deviations: 0 },
  ];
  let [runs, steps] = [0, 0];
  for (let next = prefixes.pop(); next !== undefined; next = prefixes.pop()) {
    const { schedule, deviations } = next;
    const { choices, story } = await runSchedule(options, schedule, learned, deviations < maxDeviations);
    runs += 1;
    steps += story.length;
    for (const [index, { alternatives, state }] of choices.entries()) {
      const left = `${maxDeviations - deviations} ${state}`;
      if (index < schedule.length || seen.has(left)) continue;
      seen.add(left);
      const before = [...schedule, ...Array.from({ length: index - schedule.length }, () => 0)];
      for (let choice = 1; choice < alternatives; choice += 1)
        prefixes.push({ schedule: [...before, choice], deviations: deviations + 1 });
    }
  }
  return { runs, steps };
}

/** Returns the objects after each step that undisturbed runs with different random numbers have in common. */
async function learn(options: ExploreOptions): Promise<ReadonlyMap<string, Facts>> {
  const { seed = 1 } = options;
  const runs: Exploration[] = [];
  for (let run = 0; run < learningRuns; run += 1) {
    const exploration = new Exploration({ ...options, seed: seed + run }, [], undefined);
    await exploration.run();
    runs.push(exploration);
  }
  const steps = Object.keys(options.scenario.steps);
  const states = new Map(
    steps.map((step) => [step, common(runs.map((run) => run.states.get(step) ?? new Map()))] as const),
  );
  const problem = problemOfStates(options.scenario, states);
  if (problem !== undefined) throw new Error(problem);
  return states;
}

async function runSchedule(
  options: ExploreOptions,
  schedule: readonly number[],
  learned: ReadonlyMap<string, Facts>,
  recordsChoices = false,
): Promise<Exploration> {
  const exploration = new Exploration(options, schedule, learned, recordsChoices);
  try {
    await exploration.run();
  } catch (error) {
    throw new ExplorationError(`${options.scenario.name}: ${exploration.explain(error)}`, exploration, error);
  }
  return exploration;
}

/** A choice of a run. */
interface Choice {
  readonly alternatives: number;
  /** The observable state of the simulation before the choice. */
  readonly state: string;
}

/** One run of a scenario. */
class Exploration {
  /** The objects after each step. */
  readonly states = new Map<string, Facts>();
  /** The steps of {@link story} that follow from a choice other than the undisturbed one. */
  readonly deviations: string[] = [];
  readonly schedule: readonly number[];
  readonly #options: ExploreOptions;
  readonly #learned: ReadonlyMap<string, Facts> | undefined;
  #simulation: DirectedSimulation | undefined;
  readonly #recordsChoices: boolean;
  /** Empty unless choices are recorded. */
  readonly choices: Choice[] = [];
  #choiceCount = 0;
  #disturbances = 0;
  /**
   * `orderly`: everything happens in order, and nothing is disturbed. `over`: in addition, a process that ends is not
   * replaced.
   */
  #phase: 'disturbed' | 'orderly' | 'over' = 'orderly';
  /** The first violation of what must hold at any time. */
  #violation: Error | undefined;
  #checkedRevision = 0;
  readonly #always: ReturnType<NonNullable<Scenario['always']>> | undefined;
  /** How many late writes of crashed processes the operator has corrected, if they had to be. */
  #correctedWrites = 0;
  readonly #transitionTimes = new TransitionTimes();

  /** @param learned the states of the undisturbed run; undefined: this is the undisturbed run. */
  constructor(
    options: ExploreOptions,
    schedule: readonly number[],
    learned: ReadonlyMap<string, Facts> | undefined,
    recordsChoices = false,
  ) {
    this.#recordsChoices = recordsChoices;
    this.#options = options;
    this.schedule = schedule;
    this.#learned = learned;
    this.#always = options.scenario.always?.();
  }

  get story(): readonly string[] {
    return this.#simulation?.story ?? [];
  }

  /** The message of an error, with the last steps. */
  explain(error: unknown): string {
    const message = error instanceof Error ? error.message : String(error);
    return error instanceof StoryError ? message : (this.#simulation?.error(message).message ?? message);
  }

  run(): Promise<void> {
    return inVirtualTime(this.#options.seed ?? 1, async (time) => {
      const { scenario, customKinds = [], otherControllers, replicas = 1 } = this.#options;
      const kinds = [...new Set([...scenario.kinds.filter(isCustomKind), ...customKinds])];
      const add = (operator: Operator) => scenario.addControllers(operator, namespace, noExternal);
      const others = (each: Simulation) => [...(otherControllers?.(each) ?? []), ...this.#restarts(simulation)];
      const simulation = new DirectedSimulation({ ...this.#options, kinds, otherControllers: others }, add, time, {
        choose: (alternatives) => {
          this.#check(simulation);
          return this.#choose(alternatives, simulation);
        },
        disturbances: () => this.#disturbancesOf(simulation),
      });
      this.#simulation = simulation;
      if (scenario.perturbedSteps === undefined) this.#phase = 'disturbed';
      for (let started = 1; started < replicas; started += 1) await simulation.launch();
      await simulation.start();
      for (const [name, act] of Object.entries(scenario.steps)) {
        simulation.note(`step ${name}`);
        this.#phase = scenario.perturbedSteps?.includes(name) === false ? 'orderly' : 'disturbed';
        await this.#take(name, act, simulation);
      }
      if (this.#violation !== undefined) throw this.#violation;
      this.#phase = 'over';
      await simulation.end();
    });
  }

  async #take(name: string, act: Scenario['steps'][string], simulation: DirectedSimulation): Promise<void> {
    const world: ScenarioWorld = { client: simulation.client, namespace };
    const acting = settled(act(world));
    await simulation.until(() => acting.isSettled);
    await acting.result;
    await this.#recover(name, simulation, world);
    // A disturbed watch may still wait for its next attempt. From now on everything arrives, in order.
    this.#phase = 'orderly';
    await simulation.advance(maxDelayMs);
    simulation.bookmark();
    const requests = simulation.requests;
    await simulation.advance(restMs);
    if (simulation.requests > requests) throw simulation.error(`the operator does not rest after step ${name}`);
    for (const { metadata, status } of this.#customKinds.flatMap((kind) =>
      simulation.objects<KubeObject & { readonly status?: StandardStatus }>(kind),
    )) {
      const { observedGeneration: observed } = status ?? {};
      if (observed !== undefined && observed !== metadata.generation)
        throw simulation.error(
          `after step ${name}, the status of ${metadata.name} is of generation ${observed}, not ${metadata.generation}`,
        );
    }
    const { mayMiss = () => false, leaderElection } = this.#options;
    for (const { oracle, isWorking } of simulation.processes) {
      // The other processes have no caches.
      if (!isWorking && leaderElection?.warmStandby !== true) continue;
      const problem = oracle.problem() ?? oracle.problemAtRest(isWorking, mayMiss);
      if (problem !== undefined) throw simulation.error(`after step ${name}, ${problem}`);
    }
  }

  /** Waits until the objects are as after the undisturbed step. */
  async #recover(name: string, simulation: DirectedSimulation, world: ScenarioWorld): Promise<void> {
    const { scenario } = this.#options;
    if (this.#learned === undefined) await simulation.advance(learningRestMs);
    let deadlineMs = simulation.nowMs + maxDisorderMs;
    let isRecovering = false;
    for (let pauseMs = 1000; ; pauseMs *= 2) {
      const playing = settled(Promise.resolve(scenario.meanwhile?.(world)));
      await simulation.until(() => playing.isSettled);
      await simulation.settle();
      if (this.#violation !== undefined) throw this.#violation;
      const state = this.#state(simulation);
      const expected = this.#learned?.get(name);
      const difference = expected && differenceOf(withoutGenerations(expected), withoutGenerations(state));
      if (difference === undefined) {
        this.#correctedWrites = simulation.lateWrites;
        this.#checkAlways(simulation);
        this.states.set(name, state);
        return;
      }
      if (simulation.nowMs > deadlineMs) {
        if (isRecovering) throw simulation.error(`after step ${name}, ${difference}`);
        isRecovering = true;
        this.#phase = 'orderly';
        deadlineMs = simulation.nowMs + maxRecoveryMs;
        pauseMs = 1000;
      }
      await simulation.advance(pauseMs);
    }
  }

  #state(simulation: DirectedSimulation): Facts {
    const { canonicalName = (name: string) => name, mayDiffer = () => false } = this.#options.scenario;
    const facts = factsOf(this.#objects(simulation), {
      namespace,
      canonicalName,
      omitted: ['managedFields', 'resourceVersion'],
    });
    // Skip the applier's hash of what it sent: it covers uids, which are numbered in the order of requests.
    return new Map([...facts].filter(([path]) => !path.endsWith('/applied') && !mayDiffer(path)));
  }

  get #customKinds(): readonly CustomKind[] {
    return this.#options.scenario.kinds.filter(isCustomKind);
  }

  #objects(simulation: DirectedSimulation): readonly ListedObject[] {
    return this.#options.scenario.kinds.flatMap((kind: Kind) =>
      simulation.objects(kind).map((object) => ({ kind: kind.kind, object })),
    );
  }

  #check(simulation: DirectedSimulation): void {
    for (const { oracle } of simulation.processes) {
      const problem = oracle.problem();
      if (problem !== undefined) this.#violation ??= simulation.error(problem);
    }
    const leaders = simulation.processes.filter(({ operator }) => operator.elector?.isLeading === true);
    if (leaders.length > 1)
      this.#violation ??= simulation.error(`${leaders.map(({ name }) => name).join(' and ')} lead at the same time`);
    const { revision } = simulation.server;
    if (revision === this.#checkedRevision) return;
    for (const change of this.#customKinds.flatMap((kind) => simulation.server.changes(kind))) {
      if (Number(change.object.metadata.resourceVersion) <= this.#checkedRevision) continue;
      const wrong = this.#transitionTimes.observe(change.type, change.object as unknown as KubeObject);
      if (wrong !== undefined && change.by !== 'user') this.#violation ??= simulation.error(wrong);
    }
    this.#checkedRevision = revision;
    this.#checkAlways(simulation);
  }

  /** No operator can prevent what a late write of a crashed process does, so it may correct that first. */
  #checkAlways(simulation: DirectedSimulation): void {
    if (simulation.lateWrites > this.#correctedWrites) return;
    const wrong = this.#always?.(this.#objects(simulation));
    if (wrong !== undefined) this.#violation ??= simulation.error(wrong);
  }

  #choose(alternatives: readonly SimulationStep[], simulation: DirectedSimulation): number {
    if (this.#phase !== 'disturbed') return 0;
    if (this.#recordsChoices) {
      const descriptions = alternatives.map(({ description }) => description.replace(/^[\d.]+ s /, ''));
      const state = JSON.stringify([descriptions, ...this.#state(simulation)]);
      this.choices.push({ alternatives: alternatives.length, state });
    }
    const choice = this.schedule[this.#choiceCount] ?? 0;
    this.#choiceCount += 1;
    const index = choice % alternatives.length;
    const chosen = alternatives[index];
    if (index > 0 && chosen !== undefined) this.deviations.push(simulation.storyLine(chosen.description));
    return index;
  }

  /** Replaces a process that has crashed or lost its Lease, as a kubelet does. */
  #restarts(simulation: DirectedSimulation): readonly SimulationStep[] {
    const { replicas = 1 } = this.#options;
    if (this.#phase === 'over' || simulation.processes.length >= replicas) return [];
    const launch = async (): Promise<void> => void (await simulation.launch());
    return [{ description: 'another process starts', run: launch }];
  }

  #disturbancesOf(simulation: DirectedSimulation): readonly SimulationStep[] {
    const { maxDisturbances = 2, replicas = 1 } = this.#options;
    if (this.#learned === undefined || this.#phase !== 'disturbed' || this.#disturbances >= maxDisturbances) return [];
    const count = (run: () => void) => () => {
      this.#disturbances += 1;
      run();
    };
    return [
      ...simulation.processes.flatMap((process) => [
        {
          description: `${process.name} crashes`,
          run: count(() => simulation.crash(process)),
        },
        { description: `the connections of ${process.name} break`, run: count(() => simulation.cut(process)) },
      ]),
      // A cut-off of the only process is an outage of the server, and a step may wait for less time than that.
      ...(replicas > 1 ? simulation.processes : []).map((process) => ({
        description: `${process.name} is cut off for ${cutOffMs / 1000} s`,
        run: count(() => simulation.cutOff(process, cutOffMs)),
      })),
      { description: 'the API server forgets earlier changes', run: count(() => simulation.compact()) },
      { description: 'watches get bookmarks', run: () => simulation.bookmark() },
    ];
  }
}

/** @throws TypeError for a scenario that needs a feature that a simulation does not have. */
function requireSimulated(scenario: Scenario): void {
  for (const option of ['external', 'alwaysExternal', 'changesDefinitions'] as const) {
    if (scenario[option] === undefined || scenario[option] === false) continue;
    const why = option === 'changesDefinitions' ? 'never changes its definitions' : 'is the only system';
    throw new TypeError(
      `${scenario.name}: explore knows no \`${option}\`: the simulated API server ${why}. Use perturb`,
    );
  }
}

const noExternal = {
  gate: { signal: new AbortController().signal, pass: () => {} },
  write: (description: string): never => {
    throw new Error(`a simulation has no other system: ${description}`);
  },
};

/** A promise, and whether it has settled. */
function settled<R>(result: Promise<R>): { readonly result: Promise<R>; readonly isSettled: boolean } {
  let isSettled = false;
  const settle = (): void => {
    isSettled = true;
  };
  result.then(settle, settle);
  return {
    result,
    get isSettled() {
      return isSettled;
    },
  };
}
