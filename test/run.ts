/**
 * The runner behind `make test`: all suites in order, live, whatever fails; at the end one table and one line of sums.
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
import { type Machine, type Suite, suites, withBinaries } from './run/suites.ts';

/** How long a suite gets, after a signal, to take down what it brought up. */
const graceMs = 60_000;

const repository = join(import.meta.dirname, '..');

const machine: Machine = { platform: process.platform, root: process.getuid?.() === 0 };

/** One suite at a time; a signal reaches the suite that runs, and no other is started after it. */
class Runner {
  #running: Pick<Subprocess, 'kill'> | undefined;
  #signal: NodeJS.Signals | undefined;

  get signal(): NodeJS.Signals | undefined {
    return this.#signal;
  }

  interrupt(signal: NodeJS.Signals): void {
    this.#signal = signal;
    // A terminal sends Ctrl-C to the suite as well: a second one would read as "at once, and leave everything".
    if (!(signal === 'SIGINT' && process.stdin.isTTY)) this.#running?.kill(signal);
    setTimeout(() => this.#running?.kill('SIGKILL'), graceMs).unref();
  }

  async run(suite: Suite, folder: string): Promise<Outcome> {
    const leftOut = suite.leftOut?.(machine);
    if (leftOut !== undefined) return { result: 'left out', why: leftOut };
    if (suite.kind === 'check') return judgeCheck(await this.#spawn(suite.command));
    const results = join(folder, `${suite.name}.json`);
    const exit = await this.#spawn([...suite.command, '--json', `--outputFile=${results}`]);
    return judgeJest(await readResults(results), exit);
  }

  /** @returns how the command ended, undefined for exit code 0 */
  async #spawn(command: readonly [string, ...string[]]): Promise<string | undefined> {
    const [file, ...args] = command;
    const child = execa(file, args, { cwd: repository, stdio: 'inherit', reject: false });
    this.#running = child;
    const result = await child;
    this.#running = undefined;
    if (!result.failed) return undefined;
    if (result.signal !== undefined) return `ended by ${result.signal}`;
    return result.exitCode === undefined ? result.shortMessage : `exit code ${result.exitCode}`;
  }
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
  const runner = new Runner();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => runner.interrupt(signal));

  const folder = await mkdtemp(join(tmpdir(), 'echoperator-test-'));
  const outcomes: SuiteOutcome[] = [];
  try {
    for (const suite of chosen) {
      if (runner.signal !== undefined) break;
      console.log(`\n── ${suite.name} ${'─'.repeat(Math.max(0, 76 - suite.name.length))}`);
      const started = performance.now();
      const outcome = await runner.run(suite, folder);
      outcomes.push({ ...outcome, suite: suite.name, durationMs: performance.now() - started });
      if (outcome.result !== 'passed') console.log(`${suite.name}: ${outcome.result}: ${outcome.why}`);
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
