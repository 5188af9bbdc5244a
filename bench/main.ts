/**
 * Compares the operator with peers that do the same work, on one machine and in one run:
 *
 *     node bench/main.ts                 at most 75 minutes
 *     QUICK=1 node bench/main.ts         a short run: within 5 minutes, once the peers are built
 *     node bench/main.ts kube-rs         only our operator and the named ones
 *     node bench/main.ts unrecorded      only our operator, with and without its flight recorder
 *     node bench/main.ts bundles BEFORE AFTER
 *                                        two bundles of our operator in turn, each a git revision or a folder with
 *                                        sources: about 15 minutes, less with ROUNDS, BURST or LIFECYCLE_ROUNDS
 *     node bench/main.ts outside         only our operator with the kinds that have an external system: about 4
 *                                        minutes. Keeps the other figures of the last run
 *
 * Prints tables and writes a page with plots and all figures: a complete run to docs/, any other to dist/bench/.
 * BENCH_RESULTS names another folder. Exits with 0 on success, 1 if a measurement failed, 2 for invalid settings, 128 +
 * n after signal n.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { abortOnInterrupt, exitCodeOf } from '../tools/abort-on-interrupt.ts';
import { besidePage } from './benchmark-page.ts';
import { type Command, commandOf, isOfAll, UsageError } from './command.ts';
import { machine, versions } from './machine.ts';
import { type BuiltName, buildBundles, buildOperators } from './operators.ts';
import { subjects } from './outside/index.ts';
import { pacesOf } from './paces.ts';
import { PeerError } from './peers/programs.ts';
import { isWhole, type Plan, PlanError, readPlan } from './plan.ts';
import { publish } from './publish.ts';
import { report } from './report.ts';
import { type Results, readResults, writeResults } from './results.ts';
import {
  cacheRounds,
  eventCostRounds,
  failoverRounds,
  lifecycleRounds,
  loadRounds,
  longBurstRounds,
  outsideRounds,
  type RoundsTaken,
  sideBySideRounds,
  slowerRateOf,
} from './rounds.ts';
import { TurnError } from './running-operator.ts';
import type { RunContext } from './turns.ts';

const repository = join(import.meta.dirname, '..');

const outsideScenarios: readonly string[] = subjects.map(({ scenario }) => scenario);

async function main(args: readonly string[]): Promise<number> {
  const signal = abortOnInterrupt();
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-bench-'));
  // The API server's temporary files are removed with the folder.
  process.env.TMPDIR = folder;
  try {
    const command = commandOf(args);
    const plan = readPlan(process.env);
    requireRootOnLinux();
    const target = resultsFolder(plan, command);
    const context = { plan, folder, signal };
    const results = await measured(command, context, target);
    await publish(results, target);
    console.log(`\n${report(results)}\n\nThe page with plots is ${join(target, 'benchmark.md')}`);
    return failed(results) ? 1 : 0;
  } catch (error) {
    if (signal.aborted) {
      console.error('interrupted');
      return exitCodeOf(signal.reason as NodeJS.Signals);
    }
    if (error instanceof PlanError || error instanceof UsageError) {
      console.error(error.message);
      return 2;
    }
    // A turn before the rounds failed. Within the rounds, the other turns continue.
    if (error instanceof PeerError || error instanceof TurnError) {
      console.error(error.message);
      return 1;
    }
    throw error;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function requireRootOnLinux(): void {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    throw new PlanError(
      'the bench needs Linux and root, because it reads /proc and mounts the files of a pod for each operator',
    );
  }
}

/** Only a complete run is published. */
const resultsFolder = (plan: Plan, command: Command): string =>
  process.env.BENCH_RESULTS || join(repository, isWhole(plan) && isOfAll(command) ? 'docs' : 'dist/bench');

function measured(command: Command, context: RunContext, target: string): Promise<Results> {
  switch (command.of) {
    case 'operators':
      return measure(command.names, context);
    case 'outside':
      return measureOutside(context, target);
    case 'bundles':
      return measureBundles(command.before, command.after, context);
  }
}

async function measure(names: readonly BuiltName[], context: RunContext): Promise<Results> {
  const operators = await buildOperators(names, context.folder, context.signal);
  const [ours] = operators;
  if (ours === undefined) throw new RangeError('no operator');
  const saved = new SavedResults(await nothingYet(names, context.plan));
  const { taken } = saved;
  const slowerRate = await slowerRateOf(operators, context);
  if (slowerRate !== undefined) await saved.save({ slowerRate });
  await loadRounds(operators, pacesOf(slowerRate), context, taken);
  const unrecorded = operators.find(({ name }) => name === 'unrecorded');
  if (unrecorded !== undefined) await sideBySideRounds([ours, unrecorded], context, taken);
  await longBurstRounds(operators, context, taken);
  await cacheRounds(operators, context, taken);
  await eventCostRounds(operators, context, taken);
  await lifecycleRounds([ours], context, taken);
  await outsideRounds(ours, context, taken);
  await failoverRounds(operators, context, taken);
  await saved.save({ minutes: Math.round(performance.now() / 60_000) });
  return saved.results;
}

/**
 * Compares two bundles of our operator, whose turns alternate: by the bursts, the cost of an event, and Echos until
 * they succeed.
 */
async function measureBundles(before: string, after: string, context: RunContext): Promise<Results> {
  const operators = await buildBundles(before, after, context.folder);
  const { plan } = context;
  const own = await nothingYet(['echoperator'], plan);
  const saved = new SavedResults({ ...own, versions: { ...own.versions, before, echoperator: after } });
  const { judgedObjects, rounds } = plan;
  const few: Plan = { ...plan, cachedObjects: [judgedObjects], eventCostRounds: rounds, someRounds: { ceiling: 0 } };
  await eventCostRounds(operators, { ...context, plan: few }, saved.taken);
  await loadRounds(operators, {}, { ...context, plan: few }, saved.taken);
  await lifecycleRounds(operators, context, saved.taken);
  return saved.results;
}

/** Replaces only the saved figures of the kinds with an external system. */
async function measureOutside(context: RunContext, target: string): Promise<Results> {
  const [ours] = await buildOperators(['echoperator'], context.folder, context.signal);
  if (ours === undefined) throw new RangeError('no operator');
  const own = await nothingYet(['echoperator'], context.plan);
  const before = await readResults(join(target, besidePage)).catch(() => own);
  const { outsideRounds: rounds, postgresWriters, pets } = context.plan;
  const isOther = ({ scenario }: { readonly scenario: string }): boolean => !outsideScenarios.includes(scenario);
  const saved = new SavedResults({
    ...before,
    plan: { ...before.plan, outsideRounds: rounds, postgresWriters, pets },
    rounds: before.rounds.filter(isOther),
    voidRounds: before.voidRounds.filter(isOther),
    outside: { date: own.date, versions: own.versions },
  });
  await outsideRounds(ours, context, saved.taken);
  return saved.results;
}

const nothingYet = async (names: readonly BuiltName[], plan: Plan): Promise<Results> => ({
  date: new Date().toISOString(),
  machine: machine(),
  versions: await versions(names),
  plan,
  rounds: [],
  voidRounds: [],
  repeatedRounds: 0,
});

/** Saves the results after each round, so that an interrupted run keeps its figures. */
class SavedResults {
  results: Results;
  readonly taken: RoundsTaken = {
    counts: (round) => this.save({ rounds: [...this.results.rounds, round] }),
    isVoid: (round) => this.save({ voidRounds: [...this.results.voidRounds, round] }),
    isRepeated: async () => {
      const { plan, repeatedRounds = 0 } = this.results;
      if (repeatedRounds >= plan.repeats) return false;
      await this.save({ repeatedRounds: repeatedRounds + 1 });
      return true;
    },
  };

  constructor(results: Results) {
    this.results = results;
  }

  async save(more: Partial<Results>): Promise<void> {
    this.results = { ...this.results, ...more };
    await writeResults(this.results, join(repository, 'dist/bench/unfinished'));
  }
}

/** Whether a scenario has no valid round. */
const failed = ({ rounds, voidRounds }: Results): boolean =>
  voidRounds.some((lost) => !rounds.some(({ scenario }) => scenario === lost.scenario));

process.exitCode = await main(process.argv.slice(2));
