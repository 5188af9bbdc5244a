import { controllerNames, kindEntries } from '../src/kinds.ts';
import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';
import { exitInTime } from './in-time.ts';
import { type ShippedPrograms, startShipped } from './shipped-program.ts';

/**
 * Runs a command of the operator's program.
 *
 * @param programs the bundles. Default: those of jest's global set-up
 */
export const operatorCommand = (
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  programs?: ShippedPrograms,
) => startShipped('operator', args, env, programs);

/** The controllers that need no external system. */
export const selfContainedControllers = controllerNames.filter((name) => !kindEntries[name].hasExternalEffects);

/** The operator as a process, run like in its image. */
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
   * Starts the operator and returns when it is ready.
   *
   * @param settings default: the controllers that need no external system
   * @param programs the bundles. Default: those of jest's global set-up
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
      CONTROLLERS: selfContainedControllers.join(','),
      // A test may start two, or kill one and start another at once.
      SCOPE_CHECK: 'false',
      ...settings,
    };
    const child = operatorCommand([], environment, programs);
    const operator = new OperatorProcess(child, healthPort, metricsPort);
    const early = child.then(({ all, exitCode }) => {
      throw new Error(`the operator exited with ${exitCode} before it was ready: ${all}`);
    });
    // The poll ends with the process.
    const isReady = async () => operator.#hasEnded || (await fetch(`http://127.0.0.1:${healthPort}/readyz`)).ok;
    const ready = eventually('the operator is ready', isReady);
    try {
      await Promise.race([ready, early]);
    } catch (cause) {
      early.catch(() => {});
      child.kill('SIGKILL');
      const { output } = await operator.ended;
      throw new Error(`the operator did not become ready; its output: ${output}`, { cause });
    }
    early.catch(() => {});
    return operator;
  }

  /**
   * Stops the operator.
   *
   * @returns its exit code and its output
   * @throws Error with its output if it had crashed (it exited before, and {@link ended} was never read), or if it
   *   hangs
   */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<{ exitCode: number | undefined; output: string }> {
    const hasCrashed = this.#hasEnded && !this.#isExpectedToEnd;
    this.#process.kill(signal);
    const ended = await this.waitForExit();
    if (hasCrashed) throw new Error(`the operator had already exited with ${ended.exitCode}: ${ended.output}`);
    return ended;
  }

  /** Suspends the process, like a machine that hangs. Its connections stay open. */
  freeze(): void {
    this.#process.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process.kill('SIGCONT');
  }

  /** Resolves when the process has exited, however long it runs. */
  get ended(): Promise<{ exitCode: number | undefined; output: string }> {
    this.#isExpectedToEnd = true;
    return this.#end;
  }

  /**
   * Waits until the process exits because of a signal or a fault.
   *
   * @throws Error with its output if it hangs; it is killed then
   */
  async waitForExit(): Promise<{ exitCode: number | undefined; output: string }> {
    this.#isExpectedToEnd = true;
    await exitInTime('the operator', this.#process);
    return this.#end;
  }

  /** The number of finished reconciles of a controller, including failed ones. */
  async reconciles(controller: string): Promise<number> {
    return sumOf(await this.metrics(), 'controller_runtime_reconcile_total', controller);
  }

  /**
   * Waits until a controller is idle: no key is queued or being reconciled. After a start, that means that every object
   * of the first list was reconciled.
   *
   * @param minReconciles the least number of reconciles since the start
   */
  async waitUntilIdle(controller: string, minReconciles = 1): Promise<void> {
    await eventually(`${controller} is idle`, async () => {
      const metrics = await this.metrics();
      const sum = (name: string) => sumOf(metrics, name, controller);
      const isIdle = sum('workqueue_depth') === 0 && sum('controller_runtime_active_workers') === 0;
      return isIdle && sum('controller_runtime_reconcile_total') >= minReconciles;
    });
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.metricsPort}/metrics`)).text();
  }
}

/** The sum of a metric's series with this controller. */
function sumOf(metrics: string, name: string, controller: string): number {
  const line = new RegExp(`^${name}\\{[^}]*\\bcontroller="${controller}"[^}]*\\} (\\S+)$`, 'gm');
  return [...metrics.matchAll(line)].reduce((sum, [, value]) => sum + Number(value), 0);
}
