import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { execa } from 'execa';
import { freePorts } from '../testkit/free-ports.ts';
import { namespace } from './api-server.ts';
import { timings } from './failover/elections.ts';
import type { Operator } from './operators.ts';

/** Every operator logs this when its caches have synced. */
export const syncedMark = 'caches have synced';
const readyTimeoutMs = 120_000;
const stopTimeoutMs = 30_000;
/** The number of concurrent reconciles of every operator. */
export const workers = 32;

/**
 * Mounts the service account's files where a pod has them, in the process's own mount namespace, and then executes the
 * program. The process keeps its id, and the kernel kills it when its parent ends.
 */
const asPod = `mount -t tmpfs tmpfs /run &&
mkdir -p /run/secrets/kubernetes.io/serviceaccount &&
cp "$1"/* /run/secrets/kubernetes.io/serviceaccount/ &&
shift && exec setpriv --pdeathsig KILL -- "$@"`;

/** A turn failed, most often because an operator did not do its work. */
export class TurnError extends Error {
  override readonly name = 'TurnError';
}

/** How an operator finds the API server. */
export type Access =
  /** Like in a pod. `serviceAccount` is the folder to mount at /var/run/secrets/kubernetes.io/serviceaccount. */
  | { readonly host: string; readonly port: string; readonly serviceAccount: string }
  /** The path of a kubeconfig. */
  | { readonly kubeconfig: string };

/** Options of {@link RunningOperator.start}. */
export interface StartOptions {
  /** Environment variables in addition to the operator's own. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The operator is ready when its log contains all of these. Default: that its caches have synced. */
  readonly marks?: readonly string[];
}

/** A running operator. */
export class RunningOperator {
  readonly pid: number;
  /** Milliseconds from the start of the process until it was ready. */
  readonly startMs: number;
  readonly #process: ReturnType<typeof spawn>;
  /** Resolves when the log is complete. */
  readonly #logged: Promise<void>;

  private constructor(process: ReturnType<typeof spawn>, logged: Promise<void>, pid: number, startMs: number) {
    this.#process = process;
    this.#logged = logged;
    this.pid = pid;
    this.startMs = startMs;
  }

  /** Starts the operator and returns when it is ready. @param logFile for its output */
  static async start(
    operator: Operator,
    access: Access,
    logFile: string,
    { environment = {}, marks = [syncedMark] }: StartOptions = {},
  ): Promise<RunningOperator> {
    const [healthPort, metricsPort] = await freePorts();
    const started = performance.now();
    const child = spawn(operator, access, {
      HEALTH_PORT: String(healthPort),
      METRICS_PORT: String(metricsPort),
      ...environment,
    });
    const log = createWriteStream(logFile, { flags: 'a' });
    child.all.pipe(log);
    const logged = finished(log);
    // `stop` awaits it.
    logged.catch(() => {});
    const missing = new Set(marks);
    const ready = new Promise<number>((resolve) => {
      child.all.on('data', function look(chunk: Buffer) {
        // A log line is short enough to arrive in one chunk.
        for (const mark of missing) if (chunk.includes(mark)) missing.delete(mark);
        if (missing.size > 0) return;
        child.all.off('data', look);
        resolve(performance.now() - started);
      });
    });
    const ended = child.then(async ({ exitCode }) => {
      throw new TurnError(`${operator.name} exited with ${exitCode} before it was ready${await endOf(logFile)}`);
    });
    ended.catch(() => {});
    const late = delay(readyTimeoutMs, undefined, { ref: false }).then(async () => {
      throw new TurnError(`${operator.name} was not ready after ${readyTimeoutMs} ms${await endOf(logFile)}`);
    });
    try {
      const startMs = await Promise.race([ready, ended, late]);
      if (child.pid === undefined) throw new Error(`${operator.name} has no process id`);
      await expectProgram(child.pid, operator);
      return new RunningOperator(child, logged, child.pid, startMs);
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
  }

  /** Sends SIGTERM, and SIGKILL after 30 s. @returns the exit code; undefined if a signal ended the process */
  async stop(): Promise<number | undefined> {
    const kill = setTimeout(() => this.#process.kill('SIGKILL'), stopTimeoutMs);
    this.#process.kill('SIGTERM');
    const { exitCode } = await this.#process;
    clearTimeout(kill);
    await this.#logged;
    return exitCode;
  }
}

/** In a pod every operator takes a Lease, also if no other stands by. Ours does so without a setting. */
const leaseOf = (name: string): Readonly<Record<string, string>> => ({
  LEADER_ELECTION_NAMESPACE: namespace,
  LEADER_ELECTION_ID: name,
  LEASE_DURATION: `${timings.leaseDurationSeconds}s`,
  RENEW_DEADLINE: `${timings.renewDeadlineSeconds}s`,
  RETRY_PERIOD: `${timings.retryPeriodSeconds}s`,
});

function spawn({ name, command, environment }: Operator, access: Access, more: Readonly<Record<string, string>>) {
  const { PATH = '', HOME = '' } = process.env;
  const [program, ...args] = launcherOf(access, command);
  return execa(program, args, {
    env: {
      PATH,
      HOME: `${HOME}/nonexistent`,
      NUM_WORKERS: String(workers),
      ...('kubeconfig' in access
        ? // Ours takes no Lease, like the others.
          { KUBECONFIG: access.kubeconfig, SCOPE_CHECK: 'false' }
        : { KUBERNETES_SERVICE_HOST: access.host, KUBERNETES_SERVICE_PORT: access.port, ...leaseOf(name) }),
      ...environment,
      ...more,
    },
    extendEnv: false,
    reject: false,
    all: true,
    buffer: false,
  });
}

/** Returns the command that executes the operator. */
function launcherOf(access: Access, command: Operator['command']): readonly [string, ...string[]] {
  if ('kubeconfig' in access) return ['setpriv', '--pdeathsig', 'KILL', '--', ...command];
  return ['unshare', '--mount', 'sh', '-c', asPod, 'as-pod', access.serviceAccount, ...command];
}

/** Returns the last lines of a log, to append to an error message. */
export async function endOf(logFile: string): Promise<string> {
  const lines = (await readFile(logFile, 'utf8')).trimEnd().split('\n').slice(-10);
  return ['. Its log ends with:', ...lines].join('\n  ');
}

/** The measured process must be the operator itself, not a shell that waits for it. @throws Error if not */
async function expectProgram(pid: number, { name, command }: Operator): Promise<void> {
  const [program] = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
  if (program !== command[0]) throw new Error(`process ${pid} should be ${name} (${command[0]}), but is ${program}`);
}
