/**
 * The runner behind `make test`, `make quick` and `make test-nightly`. Runs every suite, even if an earlier one failed.
 * Then prints the slowest files and tests, a table of the suites, the failed tests, and the sums.
 *
 *     node test/run.ts                        the suites that every change must pass
 *     node test/run.ts unit integration       only these suites
 *     node test/run.ts --quick [REVISION]     lint, types, and the unit tests of files that changed since REVISION (main)
 *     node test/run.ts --nightly [SUITE…]     the suites that take longer
 *
 * TEST_SEED repeats the order of files of another run, and the random values of nightly-unit. With TEST_COMPLETE=1 a
 * suite that was left out or a skipped test fails the run.
 *
 * Exits with 0 if no suite failed, 1 if one failed, 2 for an unknown suite, 128 + n after signal n.
 */
import { randomInt } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import { execa, type Subprocess } from 'execa';
import { dieWithParent } from '../testkit/die-with-parent.ts';
import { makeRunFolder } from '../testkit/run-folder.ts';
import {
  type Exit,
  failures,
  hasFailed,
  type JestFile,
  type JestResults,
  judgeCheck,
  judgeJest,
  lastLines,
  type Outcome,
  reportsHang,
  reportsOpenHandles,
  type SuiteOutcome,
  slowest,
  table,
} from './run/outcome.ts';
import {
  binaries,
  type Machine,
  nightlyLimitMs,
  nightlySuites,
  pushSuites,
  quickSuites,
  type Suite,
  stagesOf,
  withBinaries,
} from './run/suites.ts';

/** How long a suite may clean up after a signal. */
const graceMs = 60_000;

const repository = join(import.meta.dirname, '..');

const machine: Machine = { platform: process.platform, root: process.getuid?.() === 0 };

type RunnerOptions = {
  /** The folder for the JSON results of the jest suites and for temporary files. */
  readonly folder: string;
  /** Determines the order of the files of each suite. */
  readonly seed: number;
  /** The time limit of a suite. Default: none. */
  readonly timeoutMs?: number;
};

/** Runs suites and forwards signals to them. Starts no suite after a signal. */
class Runner {
  /** The test files that have run. */
  readonly files: JestFile[] = [];
  readonly #running = new Set<Pick<Subprocess, 'kill'>>();
  readonly #options: RunnerOptions;
  #signal: NodeJS.Signals | undefined;
  #lacksPrograms = false;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  get signal(): NodeJS.Signals | undefined {
    return this.#signal;
  }

  interrupt(signal: NodeJS.Signals): void {
    this.#signal = signal;
    // Each suite is a process group of its own, so a terminal's Ctrl-C reaches only this process.
    this.#kill(signal);
    setTimeout(() => this.#kill('SIGKILL'), graceMs).unref();
  }

  /**
   * Runs the suites of a lane one after the other.
   *
   * @param prefixesLines whether each line starts with the suite's name
   */
  async runAll(lane: readonly Suite[], prefixesLines: boolean): Promise<readonly SuiteOutcome[]> {
    const outcomes: SuiteOutcome[] = [];
    for (const suite of lane) {
      if (this.#signal !== undefined) break;
      console.log(`\n── ${suite.name} ${'─'.repeat(Math.max(0, 76 - suite.name.length))}`);
      const started = performance.now();
      const outcome = await this.#run(suite, prefixesLines);
      outcomes.push({ ...outcome, suite: suite.name, durationMs: performance.now() - started });
      if (outcome.result !== 'passed') console.log(`${suite.name}: ${outcome.result}: ${outcome.why}`);
    }
    return outcomes;
  }

  async #run(suite: Suite, prefixesLines: boolean): Promise<Outcome> {
    const leftOut = suite.leftOut?.(machine);
    if (leftOut !== undefined) return { result: 'left out', why: leftOut };
    // Its tests would build them again, each within its own time limit.
    if (this.#lacksPrograms && suite.programs) return { result: 'failed', why: 'its programs could not be built' };
    if (suite.kind === 'check') {
      const outcome = judgeCheck(await this.#spawn(suite, [], prefixesLines));
      if (suite.name === binaries) this.#lacksPrograms = outcome.result !== 'passed';
      return outcome;
    }
    const resultsFile = join(this.#options.folder, `results-of-${suite.name}.json`);
    const flags = ['--json', `--outputFile=${resultsFile}`, `--seed=${this.#options.seed}`];
    const exit = await this.#spawn(suite, flags, prefixesLines);
    const results = await readResults(resultsFile);
    this.files.push(...(results?.testResults ?? []));
    return judgeJest(results, exit, suite);
  }

  async #spawn(suite: Suite, flags: readonly string[], prefixesLines: boolean): Promise<Exit> {
    const [program, ...words] = suite.command;
    const [file, args] = dieWithParent(program, [...words, ...flags]);
    let leftHandlesOpen = false;
    function* watched(line: unknown): Generator<string> {
      leftHandlesOpen ||= reportsOpenHandles(String(line));
      if (reportsHang(String(line))) child.kill('SIGTERM');
      yield prefixesLines ? `${suite.name} │ ${line}` : String(line);
    }
    const { timeoutMs } = this.#options;
    const child = execa(file, args, {
      cwd: repository,
      detached: true,
      // The cluster's programs and their compiler are written in Go. Collect their garbage less often: processors are
      // what is scarce.
      env: {
        GOGC: '400',
        // A killed test leaves its temporary files there.
        TMPDIR: this.#options.folder,
        ...(process.stdout.isTTY && { FORCE_COLOR: '1' }),
        ...suite.environment,
      },
      stdin: 'inherit',
      stdout: [watched, 'inherit'],
      stderr: [watched, 'inherit'],
      reject: false,
      buffer: false,
      forceKillAfterDelay: graceMs,
      ...(timeoutMs !== undefined && { timeout: timeoutMs }),
    });
    this.#running.add(child);
    const result = await child;
    this.#running.delete(child);
    killGroup(child.pid);
    return { why: whyOf(result), leftHandlesOpen };
  }

  #kill(signal: NodeJS.Signals): void {
    for (const child of this.#running) child.kill(signal);
  }
}

/** Ends what is left of a suite: the workers of a jest that was interrupted go on with their tests. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

type Ended = {
  readonly failed: boolean;
  readonly timedOut: boolean;
  readonly signal?: NodeJS.Signals | undefined;
  readonly exitCode?: number | undefined;
  readonly shortMessage?: string | undefined;
};

function whyOf({ failed, timedOut, signal, exitCode, shortMessage }: Ended): string | undefined {
  if (!failed) return undefined;
  if (timedOut) return 'took longer than its time limit';
  if (signal !== undefined) return `ended by ${signal}`;
  return exitCode === undefined ? shortMessage : `exit code ${exitCode}`;
}

async function readResults(file: string): Promise<JestResults | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as JestResults;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Selects suites by name, or all without names. @throws RangeError for an unknown name */
function choose(suites: readonly Suite[], names: readonly string[]): readonly Suite[] {
  const known = suites.map((suite) => suite.name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new RangeError(`Unknown suite "${unknown}". The suites are ${known.join(', ')}.`);
  return names.length === 0 ? suites : suites.filter((suite) => names.includes(suite.name));
}

type Run = {
  readonly suites: readonly Suite[];
  /** Whether suites may run at the same time. */
  readonly inLanes: boolean;
  readonly timeoutMs?: number;
};

/** Parses the arguments. @throws RangeError for an unknown suite */
function runOf([mode, ...rest]: readonly string[]): Run {
  if (mode === '--quick') return { suites: quickSuites(rest[0] ?? 'main'), inLanes: false };
  if (mode === '--nightly') return { suites: choose(nightlySuites, rest), inLanes: false, timeoutMs: nightlyLimitMs };
  return { suites: choose(pushSuites, mode === undefined ? [] : [mode, ...rest]), inLanes: true };
}

/** @throws RangeError for a TEST_SEED that jest does not accept */
function seedOf({ TEST_SEED }: NodeJS.ProcessEnv): number {
  const seed = TEST_SEED === undefined ? randomInt(2 ** 31) : Number(TEST_SEED);
  if (!Number.isInteger(seed) || Math.abs(seed) >= 2 ** 31)
    throw new RangeError(`TEST_SEED: got "${TEST_SEED}", takes a whole number between -2147483647 and 2147483647`);
  return seed;
}

async function main(args: readonly string[]): Promise<number> {
  const { suites, inLanes, timeoutMs } = runOf(args);
  const seed = seedOf(process.env);
  const chosen = withBinaries(suites, machine);
  const folder = await makeRunFolder('test');
  const runner = new Runner({ folder, seed, ...(timeoutMs !== undefined && { timeoutMs }) });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => runner.interrupt(signal));

  const outcomes: SuiteOutcome[] = [];
  console.log(`To repeat this order of files, set TEST_SEED=${seed}.`);
  try {
    for (const stage of inLanes ? stagesOf(chosen) : [[chosen]]) {
      const lanes = await Promise.all(stage.map((lane) => runner.runAll(lane, stage.length > 1)));
      outcomes.push(...lanes.flat());
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }

  if (runner.files.length > 0) console.log(`\n${slowest(runner.files, repository)}`);
  console.log(`\n${table(outcomes)}\n`);
  const failed = failures(runner.files, repository);
  if (failed.length > 0) console.log(`Failed:\n${failed.map((line) => `  ${line}`).join('\n')}\n`);
  if (runner.signal !== undefined) {
    console.log(`Interrupted by ${runner.signal}: ${outcomes.length} of ${chosen.length} suites ran.`);
    return 128 + constants.signals[runner.signal];
  }
  if (chosen.some(({ kind }) => kind === 'jest')) for (const line of lastLines(outcomes)) console.log(line);
  return hasFailed(outcomes, { mustBeComplete: process.env.TEST_COMPLETE === '1' }) ? 1 : 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof RangeError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
