/**
 * Compares the operator with peers: `node bench/main.ts --help`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { abortOnInterrupt, exitCodeOf } from '../tools/abort-on-interrupt.ts';
import { besidePage } from './benchmark-page.ts';
import { type Command, commandOf, UsageError, usage } from './command.ts';
import { machine, versions } from './machine.ts';
import { buildBundles, buildOperators, type Operator, operatorNames } from './operators.ts';
import { pacesOf } from './paces.ts';
import { type PartName, partNames, parts } from './parts.ts';
import { PeerError } from './peers/programs.ts';
import { isWhole, type Plan, PlanError, readPlan } from './plan.ts';
import { publish } from './publish.ts';
import { report } from './report.ts';
import {
  type PartRun,
  type Results,
  type Round,
  readResults,
  renewed,
  type VoidRound,
  writeResults,
} from './results.ts';
import {
  cacheRounds,
  eventCostRounds,
  externalRounds,
  failoverRounds,
  lifecycleRounds,
  loadRounds,
  longBurstRounds,
  neighborRounds,
  type RoundsTaken,
  refusedRounds,
  sideBySideRounds,
  slowerRateOf,
} from './rounds.ts';
import { TurnError } from './running-operator.ts';
import type { RunContext } from './turns.ts';

const repository = join(import.meta.dirname, '..');

async function main(args: readonly string[]): Promise<number> {
  const signal = abortOnInterrupt();
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-bench-'));
  // The API server's temporary files are removed with the folder.
  process.env.TMPDIR = folder;
  try {
    const command = commandOf(args);
    if (command.of === 'help') {
      console.log(usage);
      return 0;
    }
    const plan = readPlan(process.env);
    requireRootOnLinux();
    const target = resultsFolder(plan, command);
    const context = { plan, folder, signal };
    const results = await measured(command, context, target);
    await publish(results, target);
    console.log(`\n${report(results)}\n\nThe page with plots is ${join(target, 'benchmark.md')}`);
    return failed(results, command) ? 1 : 0;
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

/** Only a complete run of its parts is published. */
function resultsFolder(plan: Plan, command: Command): string {
  const isComplete =
    command.of === 'parts' &&
    operatorNames.every((name) => command.names.includes(name)) &&
    command.parts.every((part) => isWhole(plan, parts[part].plan));
  return process.env.BENCH_RESULTS || join(repository, isComplete ? 'docs' : 'dist/bench');
}

async function measured(
  command: Exclude<Command, { of: 'help' }>,
  context: RunContext,
  target: string,
): Promise<Results> {
  const { plan, folder, signal } = context;
  const nothing: Results = { parts: {}, plan, rounds: [], voidRounds: [] };
  if (command.of === 'bundles') {
    const { before, after } = command;
    const operators = await buildBundles(before, after, folder);
    const few = {
      cachedObjects: [plan.judgedObjects],
      eventObjects: [plan.judgedObjects],
      cacheRounds: 0,
      curveRounds: 0,
      eventCostRounds: plan.rounds,
      longRounds: 0,
      someRounds: { ceiling: 0 },
    };
    const own: RunContext = { ...context, plan: { ...plan, ...few } };
    return measure(['cache', 'burst', 'lifecycle'], operators, own, nothing, { before, echoperator: after });
  }
  const names = command.names.filter((name) => command.parts.some((part) => parts[part].operators.includes(name)));
  const operators = await buildOperators(names, folder, signal);
  const earlier = await readResults(join(target, besidePage)).catch(() => nothing);
  return measure(command.parts, operators, context, earlier);
}

/**
 * Replaces the parts of earlier results.
 *
 * @param named versions that only the command knows
 */
async function measure(
  names: readonly PartName[],
  operators: readonly Operator[],
  context: RunContext,
  earlier: Results,
  named: PartRun['versions'] = {},
): Promise<Results> {
  let results = earlier;
  for (const part of names) {
    const taking = operators.filter(({ name }) => parts[part].operators.includes(name));
    const run: PartRun = {
      date: new Date().toISOString(),
      machine: machine(),
      versions: { ...(await versions(taking.map(({ name }) => name))), ...named },
      repeatedRounds: 0,
    };
    const startMs = performance.now();
    const saved = new SavedPart(part, run, results, context.plan);
    await roundsOf[part](taking, context, saved);
    await saved.note({ minutes: Math.ceil((performance.now() - startMs) / 60_000) });
    results = saved.results;
  }
  return results;
}

type Rounds = (operators: readonly Operator[], context: RunContext, saved: SavedPart) => Promise<void>;

const roundsOf: Readonly<Record<PartName, Rounds>> = {
  burst: async (operators, context, saved) => {
    const slowerRate = await slowerRateOf(operators, context);
    if (slowerRate !== undefined) await saved.note({ slowerRate });
    await loadRounds(operators, pacesOf(slowerRate), context, saved);
    const [ours, unrecorded] = ['echoperator', 'unrecorded'].map((of) => operators.find(({ name }) => name === of));
    if (ours && unrecorded) await sideBySideRounds([ours, unrecorded], context, saved);
    await longBurstRounds(operators, context, saved);
  },
  cache: async (operators, context, saved) => {
    await cacheRounds(operators, context, saved);
    await eventCostRounds(operators, context, saved);
  },
  lifecycle: lifecycleRounds,
  failover: failoverRounds,
  external: externalRounds,
  neighbor: neighborRounds,
  refused: refusedRounds,
};

/** Saves the results after each round of a part, so that an interrupted run keeps its figures. */
class SavedPart implements RoundsTaken {
  results: Results;
  readonly #part: PartName;
  readonly #repeats: number;
  #run: PartRun;

  constructor(part: PartName, run: PartRun, earlier: Results, plan: Plan) {
    this.#part = part;
    this.#run = run;
    this.#repeats = plan.repeats;
    this.results = renewed(earlier, part, run, plan);
  }

  counts(round: Round): Promise<void> {
    return this.#save({ rounds: [...this.results.rounds, round] });
  }

  isVoid(round: VoidRound): Promise<void> {
    return this.#save({ voidRounds: [...this.results.voidRounds, round] });
  }

  async isRepeated(): Promise<boolean> {
    const { repeatedRounds = 0 } = this.#run;
    if (repeatedRounds >= this.#repeats) return false;
    await this.note({ repeatedRounds: repeatedRounds + 1 });
    return true;
  }

  note(more: Partial<PartRun>): Promise<void> {
    this.#run = { ...this.#run, ...more };
    return this.#save({ parts: { ...this.results.parts, [this.#part]: this.#run } });
  }

  async #save(more: Partial<Results>): Promise<void> {
    this.results = { ...this.results, ...more };
    await writeResults(this.results, join(repository, 'dist/bench/unfinished'));
  }
}

/** Whether a scenario of this run has no valid round. */
const failed = ({ rounds, voidRounds }: Results, command: Command): boolean => {
  const measured = command.of === 'parts' ? command.parts : partNames;
  const scenarios = measured.flatMap((part) => parts[part].scenarios);
  return voidRounds.some(
    (lost) => scenarios.includes(lost.scenario) && !rounds.some(({ scenario }) => scenario === lost.scenario),
  );
};

process.exitCode = await main(process.argv.slice(2));
