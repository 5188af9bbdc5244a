import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';
import { startShipped } from './shipped-program.ts';

/** Runs the operator's program with these arguments, to its end. */
export const operatorCommand = (args: readonly string[], env: Readonly<Record<string, string>>) =>
  startShipped('operator', args, env);

/** The operator as a process of its own, as its image runs it. */
export class OperatorProcess {
  readonly healthPort: number;
  readonly metricsPort: number;
  readonly #process: ReturnType<typeof startShipped>;

  private constructor(process: ReturnType<typeof startShipped>, healthPort: number, metricsPort: number) {
    this.#process = process;
    this.healthPort = healthPort;
    this.metricsPort = metricsPort;
  }

  /** Starts it and returns when it is ready. */
  static async start(kubeconfig: string, settings: Readonly<Record<string, string>> = {}): Promise<OperatorProcess> {
    const [healthPort, metricsPort] = await freePorts();
    const child = operatorCommand([], {
      KUBECONFIG: kubeconfig,
      HEALTH_PORT: String(healthPort),
      METRICS_PORT: String(metricsPort),
      LOG_LEVEL: 'info',
      NUM_WORKERS: '8',
      ...settings,
    });
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
      const { output } = await operator.stop('SIGKILL');
      throw new Error(`the operator did not become ready; it wrote: ${output}`, { cause });
    }
    early.catch(() => {});
    return operator;
  }

  /** Asks it to stop; its exit code and all that it wrote. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<{ exitCode: number | undefined; output: string }> {
    this.#process.kill(signal);
    return this.ended;
  }

  /** When it has ended, by itself or because it was asked to. */
  get ended(): Promise<{ exitCode: number | undefined; output: string }> {
    return this.#process.then(({ exitCode, all }) => ({ exitCode, output: all ?? '' }));
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.metricsPort}/metrics`)).text();
  }
}
