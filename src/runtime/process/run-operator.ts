import { ConnectionError } from '../client/index.ts';
import { LeadershipLostError } from '../leader-election/index.ts';
import { type Listening, serve } from '../observability/index.ts';
import { type ConnectOptions, connectOperator, type Operator } from './connect-operator.ts';
import { Liveness, type LivenessOptions } from './liveness.ts';
import { metricsRoute, probeRoutes } from './routes.ts';
import { type Terminable, untilTerminated } from './termination.ts';

/** What is used of Node's `process`. */
export interface OperatorProcess extends Terminable {
  readonly env: NodeJS.ProcessEnv;
  readonly stderr: { write(text: string): unknown };
  exitCode?: number | string | null | undefined;
}

/** What {@link runOperator} is told. */
export interface RunOptions extends Omit<ConnectOptions, 'environment'> {
  /** Where `/healthz`, `/readyz` and `/metrics` are served. Default: nowhere. */
  readonly port?: number;
  /** When `/healthz` fails. */
  readonly liveness?: LivenessOptions;
}

/**
 * An operator as a process of its own: connects, lets `setUp` add the controllers, runs until SIGTERM or SIGINT, and
 * stops in order. It takes over the process: its signals and, where there is no way to an API server, its exit code (2)
 * with one line on stderr that says why, for a person. A process that loses its Lease ends at once, whatever is under way
 * in it, with exit code 1 and a line. Whoever needs other than that uses {@link connectOperator}.
 *
 * @throws whatever `setUp` or the manager throws, and the system's error when the port is taken.
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
    process.stderr.write(`${options.name}: ${error.message}\n`);
    process.exitCode = 2;
  });
  if (operator === undefined) return;
  await setUp(operator);
  const liveness = new Liveness(operator.manager, options.liveness);
  const server = await listen(options.port, operator, liveness);
  try {
    await operator.run(untilTerminated(process, options.log));
  } catch (error) {
    if (!(error instanceof LeadershipLostError)) throw error;
    process.stderr.write(`${options.name}: ${error.message}\n`);
    // By force: a reconcile that does not end would keep the process alive.
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
): Promise<Listening | undefined> {
  if (port === undefined) return undefined;
  return serve(port, { ...probeRoutes(operator, liveness), '/metrics': metricsRoute(operator.metrics) });
}
