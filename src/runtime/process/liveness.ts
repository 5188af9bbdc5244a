/** How often the event loop's delay is measured. */
const tickMs = 100;

/**
 * What else makes a process unhealthy: each check throws an Error that says what is wrong. A failed liveness probe ends the
 * process, so a check looks at the process alone: an outage of something outside is no reason to restart.
 */
export type HealthChecks = Readonly<Record<string, () => void | Promise<void>>>;

/** Options of {@link Liveness}. */
export interface LivenessOptions {
  /** For how long the event loop may have stood still since the last probe. Default 10,000. */
  readonly maxEventLoopDelayMs?: number;
  /** For how long a reconcile may go on after its time limit, whose signal it should obey. Default 30,000. */
  readonly maxOverrunMs?: number;
  /** Default: none. */
  readonly checks?: HealthChecks;
}

/** What is told of workers: a manager. */
interface Workers {
  /** Of each controller how long, in milliseconds, its slowest reconcile has gone on after its time limit. */
  overruns?(): ReadonlyMap<string, number>;
}

/** Whether a process works as it should, or had better be restarted. */
export class Liveness {
  readonly #workers: Workers;
  readonly #options: LivenessOptions;
  readonly #timer: NodeJS.Timeout;
  /** The last measurement (performance.now), and the longest delay since the last probe. */
  #tickedAtMs = performance.now();
  #longestDelayMs = 0;

  constructor(workers: Workers, options: LivenessOptions = {}) {
    this.#workers = workers;
    this.#options = options;
    this.#timer = setInterval(() => this.#tick(), tickMs).unref();
  }

  /** What is wrong, a line for each; empty while nothing is. Asking begins a new interval for the event loop's delay. */
  async problems(): Promise<readonly string[]> {
    return [...this.#delayed(), ...this.#overrun(), ...(await this.#failedChecks())];
  }

  /** Watches the event loop no longer. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const nowMs = performance.now();
    this.#longestDelayMs = Math.max(this.#longestDelayMs, nowMs - this.#tickedAtMs - tickMs);
    this.#tickedAtMs = nowMs;
  }

  #delayed(): readonly string[] {
    const { maxEventLoopDelayMs = 10_000 } = this.#options;
    // After a delay the probe may be answered before the timer runs.
    this.#tick();
    const longestMs = Math.round(this.#longestDelayMs);
    this.#longestDelayMs = 0;
    return longestMs > maxEventLoopDelayMs ? [`event loop: it stood still for ${longestMs} ms`] : [];
  }

  #overrun(): readonly string[] {
    const { maxOverrunMs = 30_000 } = this.#options;
    const overruns = [...(this.#workers.overruns?.() ?? [])].filter(([, overMs]) => overMs > maxOverrunMs);
    return overruns.map(
      ([name, overMs]) =>
        `workers: controller ${name}: a reconcile runs on ${Math.round(overMs / 1000)} s after its time limit`,
    );
  }

  async #failedChecks(): Promise<readonly string[]> {
    const failures = Object.entries(this.#options.checks ?? {}).map(async ([name, check]) => {
      try {
        await check();
        return [];
      } catch (error) {
        return [`${name}: ${error instanceof Error ? error.message : String(error)}`];
      }
    });
    return (await Promise.all(failures)).flat();
  }
}
