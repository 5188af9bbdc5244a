/**
 * Compares the operator with others that do the same work, on one machine and in one run:
 *
 *     node bench/main.ts                 seven rounds: about 70 minutes
 *     QUICK=1 node bench/main.ts         less of everything: within 5 minutes, once the peers are built
 *     node bench/main.ts kube-rs         our operator and the ones named alone
 *
 * Prints tables, and writes a page with plots and every figure: to docs/, or where something was left out to
 * dist/bench/, or to the folder that BENCH_RESULTS names. Exits with 0 when it has measured, 1 when it could not, 2 for
 * bad settings, 128 + n after signal n.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exitCodeOf, interruption } from '../tools/interruption.ts';
import { besidePage } from './benchmark-page.ts';
import { machine, versions } from './machine.ts';
import { buildOperators, type OperatorName, operatorNames } from './operators.ts';
import { PeerError } from './peers/programs.ts';
import { isWhole, type Plan, PlanError, readPlan } from './plan.ts';
import { writePage } from './publish.ts';
import { report } from './report.ts';
import { type Results, writeResults } from './results.ts';
import {
  busyPace,
  cacheRounds,
  eventCosts,
  failoverRounds,
  loadRounds,
  longBurstRounds,
  type RoundsTaken,
} from './rounds.ts';
import { TurnError } from './running-operator.ts';

const repository = join(import.meta.dirname, '..');

async function main(args: readonly string[]): Promise<number> {
  const unknown = args.filter((name) => !(operatorNames as readonly string[]).includes(name));
  if (unknown.length > 0) {
    console.error(`no such operator: ${unknown.join(', ')}. There are ${operatorNames.join(', ')}.`);
    return 2;
  }
  const signal = interruption();
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-bench-'));
  // What the API server's environment makes for itself goes with the folder too.
  process.env.TMPDIR = folder;
  try {
    const plan = readPlan(process.env);
    requireRootOnLinux();
    const names = operatorNames.filter((name) => args.length === 0 || name === 'echoperator' || args.includes(name));
    const target = resultsFolder(plan, names);
    const results = await measure(names, plan, folder, target, signal);
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
function resultsFolder(plan: Plan, names: readonly OperatorName[]): string {
  if (process.env.BENCH_RESULTS) return process.env.BENCH_RESULTS;
  const whole = isWhole(plan) && names.length === operatorNames.length;
  return join(repository, whole ? 'docs' : 'dist/bench');
}

async function measure(
  names: readonly OperatorName[],
  plan: Plan,
  folder: string,
  target: string,
  signal: AbortSignal,
): Promise<Results> {
  const operators = await buildOperators(names, folder, signal);
  const [ours] = operators;
  if (ours === undefined) throw new RangeError('no operator');
  const context = { plan, folder, signal };
  let results: Results = {
    date: new Date().toISOString(),
    machine: machine(),
    versions: await versions(names),
    plan,
    rounds: [],
    voidRounds: [],
    eventCosts: [],
  };
  // Kept after each round: a run that is interrupted has measured something too.
  const keep = async (more: Partial<Results>): Promise<void> => {
    results = { ...results, ...more };
    await writeResults(results, join(repository, 'dist/bench/unfinished'));
  };
  const taken: RoundsTaken = {
    counts: (round) => keep({ rounds: [...results.rounds, round] }),
    isVoid: (round) => keep({ voidRounds: [...results.voidRounds, round] }),
  };
  const busyPerSecond = await busyPace(operators, context);
  if (busyPerSecond !== undefined) await keep({ busyPerSecond });
  await loadRounds(operators, busyPerSecond, context, taken);
  await longBurstRounds(operators, context, taken);
  await cacheRounds(operators, context, taken);
  await eventCosts(ours, context, (cost) => keep({ eventCosts: [...results.eventCosts, cost] }), taken);
  await failoverRounds(operators, context, taken);
  await writeResults(results, join(target, besidePage));
  return results;
}

/** Whether something went wrong that no round makes up for. */
const failed = ({ rounds, voidRounds }: Results): boolean =>
  voidRounds.some((lost) => !rounds.some(({ scenario }) => scenario === lost.scenario));

process.exitCode = await main(process.argv.slice(2));
