import { ConnectionError } from '../client/index.ts';
import { LeadershipLostError } from '../leader-election/index.ts';
import { type HttpServer, printableLines, serve } from '../observability/index.ts';
import { type ConnectOptions, connectOperator, type Operator } from './connect-operator.ts';
import { Liveness, type LivenessOptions } from './liveness.ts';
import { metricsRoute, probeRoutes } from './routes.ts';
import { type TerminableProcess, terminationSignal } from './termination-signal.ts';

/** The part of Node's `process` that {@link runOperator} uses. */
export interface OperatorProcess extends TerminableProcess {
  readonly env: NodeJS.ProcessEnv;
  readonly stderr: { write(text: string): unknown };
  exitCode?: number | string | null | undefined;
}

/** Options of {@link runOperator}. */
export interface RunOptions extends Omit<ConnectOptions, 'environment'> {
  /** The port of `/healthz`, `/readyz` and `/metrics`. Default: they are not served. */
  readonly port?: number;
  /** Options of `/healthz`. */
  readonly liveness?: LivenessOptions;
}

/**
 * Runs an operator as the whole process: connects, calls `setUp` to add the controllers, runs until SIGTERM or SIGINT, and
 * stops gracefully. It handles the signals of the process and sets its exit code, with one line on stderr:
 *
 * - 2 if no API server is configured;
 * - 1 if it loses its Lease. The process then exits at once, even if reconciles still run.
 *
 * For other behaviour use {@link connectOperator}.
 *
 * @throws the errors of `setUp` and of the manager, and the system's error if the port is in use.
 *
 * @example
 * await runOperator(process, { name: 'greeter', log: pino() }, ({ manager }) => {
 *   manager.controller(Greeting, { owns: [ConfigMap], reconcile });
 * });
 */
export async function runOperator(
  process: OperatorProcess,
  options: RunOptions,
  setUp: (operator: Operator) => void | Promise<void>,
): Promise<void> {
  const operator = await connectOperator({ ...options, environment: process.env }).catch((error: unknown) => {
    if (!(error instanceof ConnectionError)) throw error;
    process.stderr.write(`${options.name}: ${printableLines(error.message)}\n`);
    process.exitCode = 2;
  });
  if (operator === undefined) return;
  await setUp(operator);
  const liveness = new Liveness(operator.manager, options.liveness);
  const server = await listen(options.port, operator, liveness);
  try {
    await operator.run(terminationSignal(process, options.log));
  } catch (error) {
    if (!(error instanceof LeadershipLostError)) throw error;
    process.stderr.write(`${options.name}: ${printableLines(error.message)}\n`);
    // Exit explicitly, because a reconcile that does not end would keep the process alive.
    process.exit(1);
  } finally {
    liveness.stop();
    await server?.close();
  }
}

async function listen(
  port: number | undefined,
  operator: Operator,
  liveness: Liveness,
): Promise<HttpServer | undefined> {
  if (port === undefined) return undefined;
  return serve(port, { ...probeRoutes(operator, liveness), '/metrics': metricsRoute(operator.metrics) });
}
