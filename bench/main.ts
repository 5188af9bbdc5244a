/**
 * Compares the operator with others that do the same work, on one machine and in one run:
 *
 *     node bench/main.ts                 seven rounds: about 40 minutes
 *     QUICK=1 node bench/main.ts         less of everything: under 5 minutes, once the peers are built
 *     node bench/main.ts kube-rs         our operator and the ones named alone
 *
 * Prints tables, and writes every figure to bench.json in the folder that BENCH_RESULTS names, if it does.
 * Exits with 0 when it has measured, 1 when it could not, 2 for bad settings, 128 + n after signal n.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { exitCodeOf, interruption } from '../tools/interruption.ts';
import type { Figures } from './measurements.ts';
import { buildOperators, type Operator, type OperatorName, operatorNames } from './operators.ts';
import { PeerError } from './peers/programs.ts';
import { type Plan, PlanError, readPlan } from './plan.ts';
import { type Round, report } from './report.ts';
import { readRequests } from './requests.ts';
import { cacheTurn, loadTurn, populatedServer, TurnError } from './turns.ts';

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
    const operators = await buildOperators(names, folder, signal);
    const rounds = [
      ...(await loadRounds(operators, plan, folder, signal)),
      ...(await cacheRounds(operators, plan, folder, signal)),
    ];
    console.log(`\n${title(plan)}\n\n${report(rounds)}`);
    await keepResults(rounds, plan);
    return 0;
  } catch (error) {
    if (signal.aborted) {
      console.error('interrupted');
      return exitCodeOf(signal.reason as NodeJS.Signals);
    }
    if (error instanceof PlanError) {
      console.error(error.message);
      return 2;
    }
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

/** ABBA: every other round the other way round, so that a machine that warms up or slows down favours nobody. */
const inOrder = <T>(items: readonly T[], round: number): readonly T[] =>
  round % 2 === 0 ? items : [...items].reverse();

async function loadRounds(
  operators: readonly Operator[],
  plan: Plan,
  folder: string,
  signal: AbortSignal,
): Promise<readonly Round[]> {
  const rounds: Round[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    const figures = new Map<OperatorName, Figures>();
    const requests = new Map<OperatorName, string>();
    for (const operator of inOrder(operators, round)) {
      const turn = await loadTurn(operator, plan, folder, signal);
      figures.set(operator.name, turn.figures);
      requests.set(operator.name, turn.requests);
      const { echosPerSecond = 0, burstP50 = 0 } = turn.figures;
      console.error(
        `round ${round + 1} of ${plan.rounds}, ${operator.name}: ${echosPerSecond.toFixed(0)} Echos/s, p50 ${burstP50.toFixed(0)} ms`,
      );
    }
    if (new Set(requests.values()).size === 1) rounds.push(figures);
    else {
      console.error(`round ${round + 1} is void: requests an Echo differ`);
      for (const [name, counted] of requests) console.error(`  ${name}: ${counted}`);
    }
  }
  return rounds;
}

async function cacheRounds(
  operators: readonly Operator[],
  plan: Plan,
  folder: string,
  signal: AbortSignal,
): Promise<readonly Round[]> {
  console.error(`Creating ${plan.cached} Echos with their Jobs, to be cached`);
  const server = await populatedServer(plan, folder);
  const rounds: Round[] = [];
  try {
    for (let round = 0; round < plan.rounds; round++) {
      const figures = new Map<OperatorName, Figures>();
      for (const operator of inOrder(operators, round)) {
        figures.set(operator.name, await cacheTurn(operator, server, folder, signal));
      }
      rounds.push(figures);
    }
  } finally {
    await server.stop();
  }
  const { counts } = await readRequests(server.auditLog, 'cached-');
  if (counts.size > 0) throw new Error(`a restart sent requests: ${JSON.stringify([...counts])}`);
  return rounds;
}

const title = ({ rounds, burst, steadySeconds, cached }: Plan): string =>
  `${rounds} rounds; a burst of ${burst} Echos by 16 writers, 50/s for ${steadySeconds} s, ${cached} Echos and Jobs cached; ` +
  `32 workers; ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}`;

async function keepResults(rounds: readonly Round[], plan: Plan): Promise<void> {
  const folder = process.env.BENCH_RESULTS;
  if (!folder) return;
  await mkdir(folder, { recursive: true });
  const results = { plan, rounds: rounds.map((round) => Object.fromEntries(round)) };
  await writeFile(join(folder, 'bench.json'), `${JSON.stringify(results, null, 2)}\n`);
}

process.exitCode = await main(process.argv.slice(2));
