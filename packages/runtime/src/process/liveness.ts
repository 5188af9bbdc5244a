import type { Manager } from '../manager/manager.ts';

/** How often the event loop's delay is measured. */
const tickMs = 100;

/**
 * Additional health checks by name. A check throws an Error with the problem. A failed liveness probe restarts the
 * process, so check only the process itself, never an external service: a restart does not end an outage.
 */
export type HealthChecks = Readonly<Record<string, () => void | Promise<void>>>;

/** Options of {@link Liveness}. */
export interface LivenessOptions {
  /**
   * How long the event loop may be blocked. After a longer block, probes fail for this time, so that a kubelet, which
   * probes every 10 s, notices it. Default 10,000.
   */
  readonly maxEventLoopDelayMs?: number;
  /** How long a reconcile may continue after its time limit, when its signal has aborted. Default 30,000. */
  readonly maxOverrunMs?: number;
  /** Default: none. */
  readonly checks?: HealthChecks;
  /** The time limit of each check; probes fail while a check exceeds it. Default 3000. */
  readonly checkTimeoutMs?: number;
}

/** Detects that the process is unhealthy and should be restarted. */
export class Liveness {
  readonly #manager: Partial<Pick<Manager, 'overruns'>>;
  readonly #options: LivenessOptions;
  readonly #maxDelayMs: number;
  readonly #timer: NodeJS.Timeout;
  /** The time of the last measurement (performance.now). */
  #tickedAtMs = performance.now();
  /** The last delay above the limit, and its end. */
  #delay: { readonly ms: number; readonly endedAtMs: number } | undefined;
  /** The running checks, by name. */
  readonly #runningChecks = new Map<string, Promise<void>>();

  /** @param manager its reconciles must respect their time limits. */
  constructor(manager: Partial<Pick<Manager, 'overruns'>>, options: LivenessOptions = {}) {
    this.#manager = manager;
    this.#options = options;
    this.#maxDelayMs = options.maxEventLoopDelayMs ?? 10_000;
    this.#timer = setInterval(() => this.#tick(), tickMs).unref();
  }

  /** Returns one line for each problem; empty if the process is healthy. A call does not reset the problems. */
  async problems(): Promise<readonly string[]> {
    return [...this.#eventLoopProblems(), ...this.#overrunProblems(), ...(await this.#failedChecks())];
  }

  /** Stops the measurement of the event loop. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const nowMs = performance.now();
    const ms = Math.round(nowMs - this.#tickedAtMs - tickMs);
    if (ms > this.#maxDelayMs) this.#delay = { ms, endedAtMs: nowMs };
    this.#tickedAtMs = nowMs;
  }

  #eventLoopProblems(): readonly string[] {
    // After a block, the probe's handler may run before the timer.
    this.#tick();
    const { ms, endedAtMs } = this.#delay ?? { ms: 0, endedAtMs: Number.NEGATIVE_INFINITY };
    return performance.now() - endedAtMs < this.#maxDelayMs ? [`event loop: blocked for ${ms} ms`] : [];
  }

  #overrunProblems(): readonly string[] {
    const { maxOverrunMs = 30_000 } = this.#options;
    const overruns = [...(this.#manager.overruns?.() ?? [])].filter(([, overMs]) => overMs > maxOverrunMs);
    return overruns.map(
      ([name, overMs]) =>
        `workers: controller ${name}: a reconcile still runs ${Math.round(overMs / 1000)} s after its time limit`,
    );
  }

  async #failedChecks(): Promise<readonly string[]> {
    const failures = Object.entries(this.#options.checks ?? {}).map(async ([name, check]) => {
      try {
        await this.#withTimeout(this.#run(name, check));
        return [];
      } catch (error) {
        return [`${name}: ${error instanceof Error ? error.message : String(error)}`];
      }
    });
    return (await Promise.all(failures)).flat();
  }

  /** Runs a check, or returns its current run. */
  #run(name: string, check: () => void | Promise<void>): Promise<void> {
    const running = this.#runningChecks.get(name);
    if (running !== undefined) return running;
    const run = (async () => check())().finally(() => this.#runningChecks.delete(name));
    this.#runningChecks.set(name, run);
    return run;
  }

  async #withTimeout(run: Promise<void>): Promise<void> {
    const { checkTimeoutMs = 3000 } = this.#options;
    const timeout = Promise.withResolvers<never>();
    const error = new Error(`the check did not end within ${checkTimeoutMs} ms`);
    const timer = setTimeout(() => timeout.reject(error), checkTimeoutMs);
    try {
      await Promise.race([run, timeout.promise]);
    } finally {
      clearTimeout(timer);
    }
  }
}
