import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { wrapToDieWithParent } from '../../../../testkit/die-with-parent.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { ensureBinaries } from '../../../../tools/programs/index.ts';
import type { CandidateSettings } from './candidate.ts';
import { monotonicMs } from './monotonic.ts';
import type { Interval } from './verdict.ts';

/** The candidates' programs, wrapped so that they end with the test even while a signal has stopped them. */
export interface CandidatePrograms {
  readonly node: string;
  readonly clientGo: string;
}

export async function candidatePrograms(folder: string): Promise<CandidatePrograms> {
  const clientGo = (await ensureBinaries(['election-candidate'])).get('election-candidate')!;
  const wrappers = await wrapToDieWithParent(folder, { 'election-candidate': clientGo, node: process.execPath });
  return { node: join(wrappers, 'node'), clientGo: join(wrappers, 'election-candidate') };
}

/** The command line of a candidate. */
export interface CandidateCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly journal: string;
}

export function ours(
  { node }: CandidatePrograms,
  settings: CandidateSettings,
  env: Readonly<Record<string, string>> = {},
): CandidateCommand {
  return {
    file: node,
    args: [join(import.meta.dirname, 'candidate.ts')],
    env: {
      ...env,
      CANDIDATE_SETTINGS: JSON.stringify(settings),
      // Speeds up the many starts.
      NODE_COMPILE_CACHE: join(dirname(settings.journal), 'compile-cache'),
    },
    journal: settings.journal,
  };
}

export function clientGo(
  { clientGo: file }: CandidatePrograms,
  settings: CandidateSettings,
  { release = true }: { readonly release?: boolean } = {},
): CandidateCommand {
  const { server, name, locks, timings, journal } = settings;
  const flags = {
    server,
    name,
    journal,
    leases: locks.join(','),
    'lease-duration': `${timings.leaseDurationSeconds}s`,
    'renew-deadline': `${timings.renewDeadlineSeconds}s`,
    'retry-period': `${timings.retryPeriodSeconds}s`,
    release: String(release),
  };
  return { file, args: Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`), journal };
}

const lastCharacters = 4_000;

/** The process of a candidate. */
export class CandidateProcess implements AsyncDisposable {
  readonly journal: string;
  readonly frozen: Interval[] = [];
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown>;
  #errors = '';
  #frozenAt = 0;

  private constructor(child: ChildProcess, journal: string) {
    this.#child = child;
    this.journal = journal;
    this.#exit = once(child, 'exit');
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-lastCharacters);
    });
  }

  /** Resolves when the candidate has a journal and so contends. */
  static async start({ file, args, env, journal }: CandidateCommand): Promise<CandidateProcess> {
    const child = spawn(file, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] });
    const candidate = new CandidateProcess(child, journal);
    try {
      await eventually('the candidate has a journal', async () => {
        candidate.mustRun();
        await access(journal);
        return true;
      });
    } catch (error) {
      await candidate.kill();
      throw error;
    }
    return candidate;
  }

  /** @throws Error with the end of its stderr if the process has ended. */
  mustRun(): void {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) return;
    throw new Error(`a candidate has ended with ${exitCode ?? signalCode}: ${this.#errors}`);
  }

  /** Stops the process by SIGSTOP, which it cannot notice. */
  freeze(): void {
    this.#frozenAt = monotonicMs();
    this.#child.kill('SIGSTOP');
  }

  /** Continues the process. Returns whether it had really stopped. */
  async thaw(): Promise<boolean> {
    const hasStopped = await this.#isStopped();
    this.#child.kill('SIGCONT');
    this.frozen.push({ from: this.#frozenAt, until: monotonicMs() });
    return hasStopped;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exit;
  }

  /** Ends the process by SIGTERM, so that it releases its locks. @throws Error unless its exit code is 0. */
  async stop(timeoutMs = 90_000): Promise<void> {
    this.mustRun();
    this.#child.kill('SIGTERM');
    const timeout = AbortSignal.timeout(timeoutMs);
    timeout.addEventListener('abort', () => this.#child.kill('SIGKILL'), { once: true });
    await this.#exit;
    const { exitCode, signalCode } = this.#child;
    if (exitCode === 0) return;
    const late = timeout.aborted ? ` (killed after ${timeoutMs} ms)` : '';
    throw new Error(`a candidate ended after SIGTERM with ${exitCode ?? signalCode}${late}: ${this.#errors}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.kill();
  }

  /** By /proc. Without /proc it assumes so. */
  async #isStopped(): Promise<boolean> {
    if (process.platform !== 'linux') return true;
    const stat = await readFile(`/proc/${this.#child.pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')')).startsWith(') T');
  }
}
