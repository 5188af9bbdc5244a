import type { Manager } from '../manager/index.ts';

/** How often the event loop's delay is measured. */
const tickMs = 100;

/**
 * What else makes a process unhealthy: each check throws an Error that says what is wrong. A failed liveness probe ends the
 * process, so a check looks at the process alone: an outage of something outside is no reason to restart.
 */
export type HealthChecks = Readonly<Record<string, () => void | Promise<void>>>;

/** Options of {@link Liveness}. */
export interface LivenessOptions {
  /**
   * For how long the event loop may stand still. If it did for longer, probes fail for as long again: a kubelet asks every
   * 10 s. Default 10,000.
   */
  readonly maxEventLoopDelayMs?: number;
  /** For how long a reconcile may go on after its time limit, whose signal it should obey. Default 30,000. */
  readonly maxOverrunMs?: number;
  /** Default: none. */
  readonly checks?: HealthChecks;
  /** How long a check may take; probes fail while one takes longer. Default 3000. */
  readonly checkTimeoutMs?: number;
}

/** Whether a process works as it should, or had better be restarted. */
export class Liveness {
  readonly #manager: Partial<Pick<Manager, 'overruns'>>;
  readonly #options: LivenessOptions;
  readonly #maxDelayMs: number;
  readonly #timer: NodeJS.Timeout;
  /** The last measurement (performance.now). */
  #tickedAtMs = performance.now();
  /** The last delay that was too long, and when it ended. */
  #delay: { readonly ms: number; readonly endedAtMs: number } | undefined;
  /** The checks under way, by name. */
  readonly #runs = new Map<string, Promise<void>>();

  /** @param manager whose reconciles must respect their time limit. */
  constructor(manager: Partial<Pick<Manager, 'overruns'>>, options: LivenessOptions = {}) {
    this.#manager = manager;
    this.#options = options;
    this.#maxDelayMs = options.maxEventLoopDelayMs ?? 10_000;
    this.#timer = setInterval(() => this.#tick(), tickMs).unref();
  }

  /** What is wrong, a line for each; empty while nothing is. Whoever asks is told the same. */
  async problems(): Promise<readonly string[]> {
    return [...this.#delayed(), ...this.#overrun(), ...(await this.#failedChecks())];
  }

  /** Watches the event loop no longer. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const nowMs = performance.now();
    const ms = Math.round(nowMs - this.#tickedAtMs - tickMs);
    if (ms > this.#maxDelayMs) this.#delay = { ms, endedAtMs: nowMs };
    this.#tickedAtMs = nowMs;
  }

  #delayed(): readonly string[] {
    // After a delay the probe may be answered before the timer runs.
    this.#tick();
    const { ms, endedAtMs } = this.#delay ?? { ms: 0, endedAtMs: Number.NEGATIVE_INFINITY };
    return performance.now() - endedAtMs < this.#maxDelayMs ? [`event loop: it stood still for ${ms} ms`] : [];
  }

  #overrun(): readonly string[] {
    const { maxOverrunMs = 30_000 } = this.#options;
    const overruns = [...(this.#manager.overruns?.() ?? [])].filter(([, overMs]) => overMs > maxOverrunMs);
    return overruns.map(
      ([name, overMs]) =>
        `workers: controller ${name}: a reconcile runs on ${Math.round(overMs / 1000)} s after its time limit`,
    );
  }

  async #failedChecks(): Promise<readonly string[]> {
    const failures = Object.entries(this.#options.checks ?? {}).map(async ([name, check]) => {
      try {
        await this.#inTime(this.#run(name, check));
        return [];
      } catch (error) {
        return [`${name}: ${error instanceof Error ? error.message : String(error)}`];
      }
    });
    return (await Promise.all(failures)).flat();
  }

  /** Runs a check, unless it is under way. */
  #run(name: string, check: () => void | Promise<void>): Promise<void> {
    const underWay = this.#runs.get(name);
    if (underWay !== undefined) return underWay;
    const run = (async () => check())().finally(() => this.#runs.delete(name));
    this.#runs.set(name, run);
    return run;
  }

  async #inTime(run: Promise<void>): Promise<void> {
    const { checkTimeoutMs = 3000 } = this.#options;
    const timeout = Promise.withResolvers<never>();
    const error = new Error(`it has not ended within ${checkTimeoutMs} ms`);
    const timer = setTimeout(() => timeout.reject(error), checkTimeoutMs);
    try {
      await Promise.race([run, timeout.promise]);
    } finally {
      clearTimeout(timer);
    }
  }
}
