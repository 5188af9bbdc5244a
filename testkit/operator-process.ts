import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';
import { type ShippedPrograms, startShipped } from './shipped-program.ts';

/**
 * Runs the operator's program with these arguments, to its end.
 *
 * @param programs whose operator it is. Default: today's.
 */
export const operatorCommand = (
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  programs?: ShippedPrograms,
) => startShipped('operator', args, env, programs);

/** The operator as a process of its own, as its image runs it. */
export class OperatorProcess {
  readonly healthPort: number;
  readonly metricsPort: number;
  readonly #process: ReturnType<typeof startShipped>;
  readonly #end: Promise<{ exitCode: number | undefined; output: string }>;
  #isExpectedToEnd = false;
  #hasEnded = false;

  private constructor(process: ReturnType<typeof startShipped>, healthPort: number, metricsPort: number) {
    this.#process = process;
    this.#end = process.then(({ exitCode, all }) => {
      this.#hasEnded = true;
      return { exitCode, output: all ?? '' };
    });
    this.healthPort = healthPort;
    this.metricsPort = metricsPort;
  }

  /**
   * Starts it and returns when it is ready.
   *
   * @param programs whose operator it is. Default: today's.
   */
  static async start(
    kubeconfig: string,
    settings: Readonly<Record<string, string>> = {},
    programs?: ShippedPrograms,
  ): Promise<OperatorProcess> {
    const [healthPort, metricsPort] = await freePorts();
    const environment = {
      KUBECONFIG: kubeconfig,
      HEALTH_PORT: String(healthPort),
      METRICS_PORT: String(metricsPort),
      LOG_LEVEL: 'info',
      NUM_WORKERS: '8',
      ...settings,
    };
    const child = operatorCommand([], environment, programs);
    const operator = new OperatorProcess(child, healthPort, metricsPort);
    const early = child.then(({ all, exitCode }) => {
      throw new Error(`the operator ended with ${exitCode} before it was ready: ${all}`);
    });
    const look = async () => (await fetch(`http://127.0.0.1:${healthPort}/readyz`)).ok;
    const ready = eventually('the operator is ready', look);
    try {
      await Promise.race([ready, early]);
    } catch (cause) {
      early.catch(() => {});
      child.kill('SIGKILL');
      const { output } = await operator.ended;
      throw new Error(`the operator did not become ready; it wrote: ${output}`, { cause });
    }
    early.catch(() => {});
    return operator;
  }

  /**
   * Asks it to stop; its exit code and all that it wrote.
   *
   * @throws Error where it had ended before, by itself, and nobody waited for that: it has crashed.
   */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<{ exitCode: number | undefined; output: string }> {
    const hasCrashed = this.#hasEnded && !this.#isExpectedToEnd;
    this.#process.kill(signal);
    const ended = await this.ended;
    if (hasCrashed) throw new Error(`the operator had ended by itself, with ${ended.exitCode}: ${ended.output}`);
    return ended;
  }

  /** Lets it go no further, as a machine does that hangs; its connections stay. */
  freeze(): void {
    this.#process.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process.kill('SIGCONT');
  }

  /** When it has ended, by itself or because it was asked to. */
  get ended(): Promise<{ exitCode: number | undefined; output: string }> {
    this.#isExpectedToEnd = true;
    return this.#end;
  }

  /** How many reconciles of a controller have ended, however they did. */
  async reconciles(controller: string): Promise<number> {
    return sumOf(await this.metrics(), 'controller_runtime_reconcile_total', controller);
  }

  /**
   * Waits until a controller has nothing to do: no key is queued, none is worked on. After a start that is when all that the
   * first lists found has been reconciled, which does not go in the order in which it was made.
   *
   * @param more how many reconciles must have ended at the least, counted from the start
   */
  async atRest(controller: string, more = 1): Promise<void> {
    await eventually(`${controller} is at rest`, async () => {
      const metrics = await this.metrics();
      const sum = (name: string) => sumOf(metrics, name, controller);
      const isIdle = sum('workqueue_depth') === 0 && sum('controller_runtime_active_workers') === 0;
      return isIdle && sum('controller_runtime_reconcile_total') >= more;
    });
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.metricsPort}/metrics`)).text();
  }
}

/** Of all series of a metric that have this controller. */
function sumOf(metrics: string, name: string, controller: string): number {
  const line = new RegExp(`^${name}\\{[^}]*\\bcontroller="${controller}"[^}]*\\} (\\S+)$`, 'gm');
  return [...metrics.matchAll(line)].reduce((sum, [, value]) => sum + Number(value), 0);
}
