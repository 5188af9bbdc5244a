/**
 * The runner behind `make test`, `make quick` and `make test-nightly`: runs each suite whatever fails before it, and ends
 * with the slowest files and tests, a table of the suites, and a line of sums.
 *
 *     node test/run.ts                        what every change must pass
 *     node test/run.ts unit integration       these suites alone
 *     node test/run.ts --quick [REVISION]     lint, types, and the unit tests of what changed since REVISION (main)
 *     node test/run.ts --nightly [SUITE…]     what takes longer
 *
 * TEST_SEED repeats the order of the files of another run. With TEST_COMPLETE=1 a suite that was left out or a test that was skipped
 * fails the run.
 *
 * Exits with 0 when no suite failed, 1 when one did, 2 for an unknown suite, 128 + n after signal n.
 */
import { randomInt } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa, type Subprocess } from 'execa';
import { dieWithParent } from '../testkit/die-with-parent.ts';
import {
  type Exit,
  hasFailed,
  type JestFile,
  type JestResults,
  judgeCheck,
  judgeJest,
  lastLines,
  neverEnds,
  type Outcome,
  type SuiteOutcome,
  slowest,
  table,
  tellsOfOpenHandles,
} from './run/outcome.ts';
import {
  type Machine,
  nightlyLimitMs,
  nightlySuites,
  pushSuites,
  quickSuites,
  type Suite,
  stagesOf,
  withBinaries,
} from './run/suites.ts';

/** How long a suite gets, after a signal, to take down what it brought up. */
const graceMs = 60_000;

const repository = join(import.meta.dirname, '..');

const machine: Machine = { platform: process.platform, root: process.getuid?.() === 0 };

type RunnerOptions = {
  /** For the JSON results of the jest suites. */
  readonly folder: string;
  /** Decides the order of the files of each suite. */
  readonly seed: number;
  /** After which a suite is ended and has failed. Default: none. */
  readonly timeoutMs?: number;
};

/** A signal reaches the suites that run, and no other is started after it. */
class Runner {
  /** Every test file that has run. */
  readonly files: JestFile[] = [];
  readonly #running = new Set<Pick<Subprocess, 'kill'>>();
  readonly #options: RunnerOptions;
  #signal: NodeJS.Signals | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  get signal(): NodeJS.Signals | undefined {
    return this.#signal;
  }

  interrupt(signal: NodeJS.Signals): void {
    this.#signal = signal;
    // A terminal sends Ctrl-C to the suites as well: a second one would read as "at once, and leave everything".
    if (!(signal === 'SIGINT' && process.stdin.isTTY)) this.#kill(signal);
    setTimeout(() => this.#kill('SIGKILL'), graceMs).unref();
  }

  /** One suite after the other. */
  async runAll(lane: readonly Suite[], hasCompany: boolean): Promise<readonly SuiteOutcome[]> {
    const outcomes: SuiteOutcome[] = [];
    for (const suite of lane) {
      if (this.#signal !== undefined) break;
      console.log(`\n── ${suite.name} ${'─'.repeat(Math.max(0, 76 - suite.name.length))}`);
      const started = performance.now();
      const outcome = await this.#run(suite, hasCompany);
      outcomes.push({ ...outcome, suite: suite.name, durationMs: performance.now() - started });
      if (outcome.result !== 'passed') console.log(`${suite.name}: ${outcome.result}: ${outcome.why}`);
    }
    return outcomes;
  }

  async #run(suite: Suite, hasCompany: boolean): Promise<Outcome> {
    const leftOut = suite.leftOut?.(machine);
    if (leftOut !== undefined) return { result: 'left out', why: leftOut };
    if (suite.kind === 'check') return judgeCheck(await this.#spawn(suite, [], hasCompany));
    const resultsFile = join(this.#options.folder, `${suite.name}.json`);
    const flags = ['--json', `--outputFile=${resultsFile}`, `--seed=${this.#options.seed}`];
    const exit = await this.#spawn(suite, flags, hasCompany);
    const results = await readResults(resultsFile);
    this.files.push(...(results?.testResults ?? []));
    return judgeJest(results, exit, suite);
  }

  /** @param hasCompany whether each line is to begin with the suite's name, because another suite writes too */
  async #spawn(suite: Suite, flags: readonly string[], hasCompany: boolean): Promise<Exit> {
    const [program, ...words] = suite.command;
    const [file, args] = dieWithParent(program, [...words, ...flags]);
    let leftHandlesOpen = false;
    function* watched(line: unknown): Generator<string> {
      leftHandlesOpen ||= tellsOfOpenHandles(String(line));
      if (neverEnds(String(line))) child.kill('SIGTERM');
      yield hasCompany ? `${suite.name} │ ${line}` : String(line);
    }
    const { timeoutMs } = this.#options;
    const child = execa(file, args, {
      cwd: repository,
      env: { ...(process.stdout.isTTY && { FORCE_COLOR: '1' }), ...suite.environment },
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
    return { why: whyOf(result), leftHandlesOpen };
  }

  #kill(signal: NodeJS.Signals): void {
    for (const child of this.#running) child.kill(signal);
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

/** @throws RangeError for a name that is no suite */
function choose(suites: readonly Suite[], names: readonly string[]): readonly Suite[] {
  const known = suites.map((suite) => suite.name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new RangeError(`No suite is called "${unknown}". There are: ${known.join(', ')}.`);
  return names.length === 0 ? suites : suites.filter((suite) => names.includes(suite.name));
}

type Run = {
  readonly suites: readonly Suite[];
  /** Whether suites may run beside one another. */
  readonly inLanes: boolean;
  readonly timeoutMs?: number;
};

/** @throws RangeError for arguments that name nothing */
function runOf([mode, ...rest]: readonly string[]): Run {
  if (mode === '--quick') return { suites: quickSuites(rest[0] ?? 'main'), inLanes: false };
  if (mode === '--nightly') return { suites: choose(nightlySuites, rest), inLanes: false, timeoutMs: nightlyLimitMs };
  return { suites: choose(pushSuites, mode === undefined ? [] : [mode, ...rest]), inLanes: true };
}

/** @throws RangeError for a TEST_SEED that is not a number jest takes */
function seedOf({ TEST_SEED }: NodeJS.ProcessEnv): number {
  const seed = TEST_SEED === undefined ? randomInt(2 ** 31) : Number(TEST_SEED);
  if (!Number.isInteger(seed) || Math.abs(seed) >= 2 ** 31)
    throw new RangeError(`TEST_SEED "${TEST_SEED}" is no seed.`);
  return seed;
}

async function main(args: readonly string[]): Promise<number> {
  const { suites, inLanes, timeoutMs } = runOf(args);
  const seed = seedOf(process.env);
  const chosen = withBinaries(suites, machine);
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-test-'));
  const runner = new Runner({ folder, seed, ...(timeoutMs !== undefined && { timeoutMs }) });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => runner.interrupt(signal));

  const outcomes: SuiteOutcome[] = [];
  console.log(`The order of the test files follows from TEST_SEED=${seed}.`);
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
