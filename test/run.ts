/**
 * The runner behind `make test`: all suites, live, whatever fails; at the end one table and one line of sums.
 *
 *     node test/run.ts                     every suite
 *     node test/run.ts unit integration    these alone
 *
 * Exits with 0 when no suite failed, 1 when one did, 2 for an unknown suite, 128 + n after signal n.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa, type Subprocess } from 'execa';
import {
  hasFailed,
  type JestResults,
  judgeCheck,
  judgeJest,
  lastLine,
  type Outcome,
  type SuiteOutcome,
  sum,
  table,
} from './run/outcome.ts';
import { type Machine, type Suite, stagesOf, suites, withBinaries } from './run/suites.ts';

/** How long a suite gets, after a signal, to take down what it brought up. */
const graceMs = 60_000;

const repository = join(import.meta.dirname, '..');

const machine: Machine = { platform: process.platform, root: process.getuid?.() === 0 };

/** A signal reaches the suites that run, and no other is started after it. */
class Runner {
  readonly #running = new Set<Pick<Subprocess, 'kill'>>();
  readonly #folder: string;
  #signal: NodeJS.Signals | undefined;

  constructor(folder: string) {
    this.#folder = folder;
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
    const mark = hasCompany ? suite.name : undefined;
    if (suite.kind === 'check') return judgeCheck(await this.#spawn(suite.command, mark));
    const results = join(this.#folder, `${suite.name}.json`);
    const exit = await this.#spawn([...suite.command, '--json', `--outputFile=${results}`], mark);
    return judgeJest(await readResults(results), exit);
  }

  /**
   * @param mark what its lines begin with, so that they can be told from those of another
   * @returns how the command ended, undefined for exit code 0
   */
  async #spawn(command: readonly [string, ...string[]], mark: string | undefined): Promise<string | undefined> {
    const [file, ...args] = command;
    const output = mark === undefined ? 'inherit' : marked(mark);
    const child = execa(file, args, {
      cwd: repository,
      stdin: 'inherit',
      stdout: output,
      stderr: output,
      reject: false,
    });
    this.#running.add(child);
    const result = await child;
    this.#running.delete(child);
    if (!result.failed) return undefined;
    if (result.signal !== undefined) return `ended by ${result.signal}`;
    return result.exitCode === undefined ? result.shortMessage : `exit code ${result.exitCode}`;
  }

  #kill(signal: NodeJS.Signals): void {
    for (const child of this.#running) child.kill(signal);
  }
}

function marked(mark: string) {
  function* withMark(line: unknown): Generator<string> {
    yield `${mark} │ ${line}`;
  }
  return [withMark, 'inherit'] as const;
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
function choose(names: readonly string[]): readonly Suite[] {
  const known = suites.map((suite) => suite.name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new RangeError(`No suite is called "${unknown}". There are: ${known.join(', ')}.`);
  return names.length === 0 ? suites : suites.filter((suite) => names.includes(suite.name));
}

async function main(names: readonly string[]): Promise<number> {
  const chosen = withBinaries(choose(names), machine);
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-test-'));
  const runner = new Runner(folder);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => runner.interrupt(signal));

  const outcomes: SuiteOutcome[] = [];
  try {
    for (const stage of stagesOf(chosen)) {
      const lanes = await Promise.all(stage.map((lane) => runner.runAll(lane, stage.length > 1)));
      outcomes.push(...lanes.flat());
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }

  console.log(`\n${table(outcomes)}\n`);
  if (runner.signal !== undefined) {
    console.log(`Interrupted by ${runner.signal}: ${outcomes.length} of ${chosen.length} suites ran.`);
    return 128 + constants.signals[runner.signal];
  }
  if (chosen.some(({ kind }) => kind === 'jest')) console.log(lastLine(sum(outcomes)));
  return hasFailed(outcomes) ? 1 : 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof RangeError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
