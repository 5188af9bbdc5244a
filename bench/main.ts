/**
 * Compares the operator with others that do the same work, on one machine and in one run:
 *
 *     node bench/main.ts                 seven rounds: about 70 minutes
 *     QUICK=1 node bench/main.ts         less of everything: within 5 minutes, once the peers are built
 *     node bench/main.ts kube-rs         our operator and the ones named alone
 *     node bench/main.ts outside         our operator with the kinds that live outside of the cluster, alone: about
 *                                        20 minutes; whatever else was measured before stays
 *
 * Prints tables, and writes a page with plots and every figure: to docs/, or where something was left out to
 * dist/bench/, or to the folder that BENCH_RESULTS names. Exits with 0 when it has measured, 1 when it could not, 2 for
 * bad settings, 128 + n after signal n.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { abortOnInterrupt, exitCodeOf } from '../tools/abort-on-interrupt.ts';
import { besidePage } from './benchmark-page.ts';
import { machine, versions } from './machine.ts';
import { buildOperators, type OperatorName, operatorNames } from './operators.ts';
import { subjects } from './outside/index.ts';
import { PeerError } from './peers/programs.ts';
import { isWhole, type Plan, PlanError, readPlan } from './plan.ts';
import { writePage } from './publish.ts';
import { report } from './report.ts';
import { type Results, readResults, writeResults } from './results.ts';
import {
  busyPace,
  cacheRounds,
  eventCosts,
  failoverRounds,
  loadRounds,
  longBurstRounds,
  outsideRounds,
  type RoundsTaken,
} from './rounds.ts';
import { TurnError } from './running-operator.ts';
import type { RunContext } from './turns.ts';

const repository = join(import.meta.dirname, '..');

/** What is asked for instead of operators. */
const outsideAlone = 'outside';

const outsideScenarios: readonly string[] = subjects.map(({ scenario }) => scenario);

async function main(args: readonly string[]): Promise<number> {
  const isOutsideAlone = args.length === 1 && args[0] === outsideAlone;
  const unknown = isOutsideAlone ? [] : args.filter((name) => !(operatorNames as readonly string[]).includes(name));
  if (unknown.length > 0) {
    console.error(
      `no such operator: ${unknown.join(', ')}. There are ${operatorNames.join(', ')}; or ${outsideAlone}, alone.`,
    );
    return 2;
  }
  const signal = abortOnInterrupt();
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-bench-'));
  // What the API server's environment makes for itself goes with the folder too.
  process.env.TMPDIR = folder;
  try {
    const plan = readPlan(process.env);
    requireRootOnLinux();
    const names = operatorNames.filter((name) => args.length === 0 || name === 'echoperator' || args.includes(name));
    const target = resultsFolder(plan, names, isOutsideAlone);
    const context = { plan, folder, signal };
    const results = isOutsideAlone ? await measureOutside(context, target) : await measure(names, context, target);
    await writePage(results, target);
    console.log(`\n${report(results)}\n\n${join(target, 'benchmark.md')} has it with plots.`);
    return failed(results) ? 1 : 0;
  } catch (error) {
    if (signal.aborted) {
      console.error('interrupted');
      return exitCodeOf(signal.reason as NodeJS.Signals);
    }
    if (error instanceof PlanError) {
      console.error(error.message);
      return 2;
    }
    // Of a turn before the rounds: within them, the others go on.
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
    throw new PlanError('the bench needs Linux and root: it reads /proc and gives each operator the files of a pod');
  }
}

/** What is published is of a whole run. */
function resultsFolder(plan: Plan, names: readonly OperatorName[], isOutsideAlone: boolean): string {
  if (process.env.BENCH_RESULTS) return process.env.BENCH_RESULTS;
  const whole = isWhole(plan) && (isOutsideAlone || names.length === operatorNames.length);
  return join(repository, whole ? 'docs' : 'dist/bench');
}

async function measure(names: readonly OperatorName[], context: RunContext, target: string): Promise<Results> {
  const operators = await buildOperators(names, context.folder, context.signal);
  const [ours] = operators;
  if (ours === undefined) throw new RangeError('no operator');
  const keeping = new Keeping(await nothingYet(names, context.plan));
  const { taken } = keeping;
  const busyPerSecond = await busyPace(operators, context);
  if (busyPerSecond !== undefined) await keeping.keep({ busyPerSecond });
  await loadRounds(operators, busyPerSecond, context, taken);
  await longBurstRounds(operators, context, taken);
  await cacheRounds(operators, context, taken);
  await eventCosts(ours, context, (cost) => keeping.keep({ eventCosts: [...keeping.results.eventCosts, cost] }), taken);
  await outsideRounds(ours, context, taken);
  await failoverRounds(operators, context, taken);
  await writeResults(keeping.results, join(target, besidePage));
  return keeping.results;
}

/** Takes the place of what the target has of the kinds that live outside; all else there stays as it is. */
async function measureOutside(context: RunContext, target: string): Promise<Results> {
  const [ours] = await buildOperators(['echoperator'], context.folder, context.signal);
  if (ours === undefined) throw new RangeError('no operator');
  const own = await nothingYet(['echoperator'], context.plan);
  const before = await readResults(join(target, besidePage)).catch(() => own);
  const { outsideRounds: rounds, postgresWriters, pets } = context.plan;
  const isOther = ({ scenario }: { readonly scenario: string }): boolean => !outsideScenarios.includes(scenario);
  const keeping = new Keeping({
    ...before,
    plan: { ...before.plan, outsideRounds: rounds, postgresWriters, pets },
    rounds: before.rounds.filter(isOther),
    voidRounds: before.voidRounds.filter(isOther),
    outside: { date: own.date, versions: own.versions },
  });
  await outsideRounds(ours, context, keeping.taken);
  await writeResults(keeping.results, join(target, besidePage));
  return keeping.results;
}

const nothingYet = async (names: readonly OperatorName[], plan: Plan): Promise<Results> => ({
  date: new Date().toISOString(),
  machine: machine(),
  versions: await versions(names),
  plan,
  rounds: [],
  voidRounds: [],
  eventCosts: [],
});

/** Results as far as there are any, kept after each round: a run that is interrupted has measured something too. */
class Keeping {
  results: Results;
  readonly taken: RoundsTaken = {
    counts: (round) => this.keep({ rounds: [...this.results.rounds, round] }),
    isVoid: (round) => this.keep({ voidRounds: [...this.results.voidRounds, round] }),
  };

  constructor(results: Results) {
    this.results = results;
  }

  async keep(more: Partial<Results>): Promise<void> {
    this.results = { ...this.results, ...more };
    await writeResults(this.results, join(repository, 'dist/bench/unfinished'));
  }
}

/** Whether something went wrong that no round makes up for. */
const failed = ({ rounds, voidRounds }: Results): boolean =>
  voidRounds.some((lost) => !rounds.some(({ scenario }) => scenario === lost.scenario));

process.exitCode = await main(process.argv.slice(2));
