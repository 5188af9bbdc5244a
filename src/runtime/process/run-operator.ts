import { pino } from 'pino';
import { podNamespace } from '../client/in-cluster.ts';
import { ConnectionError } from '../client/index.ts';
import type { AddOptions, DefinedController } from '../controller/define-controller.ts';
import { LeadershipLostError } from '../leader-election/index.ts';
import { type HttpServer, type Logger, printableLines, serve } from '../observability/index.ts';
import type { LeaderElectionOptions } from './candidate.ts';
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
export interface RunOptions extends Omit<ConnectOptions, 'environment' | 'log' | 'leaderElection'>, AddOptions {
  /** The controllers to run. Options such as `namespaces` and `workers` apply to each whose definition does not have its own. */
  readonly controllers?: readonly DefinedController[];
  /** Default: pino, which writes JSON lines to stdout. */
  readonly log?: Logger;
  /** The name of a Lease in the pod's namespace (outside of a cluster: `default`), or options. Default: no leader election. */
  readonly leaderElection?: string | LeaderElectionOptions | undefined;
  /** The port of `/healthz`, `/readyz` and `/metrics`. Default: they are not served. */
  readonly port?: number;
  /** Options of `/healthz`. */
  readonly liveness?: LivenessOptions;
}

/**
 * Runs an operator as the whole process: connects, adds the controllers, runs until SIGTERM or SIGINT, and stops gracefully. It handles the
 * signals of the process and sets its exit code, with one line on stderr:
 *
 * - 2 if no API server is configured, or the port is in use;
 * - 1 if it loses its Lease. The process then exits at once, even if reconciles still run.
 *
 * For other behaviour use {@link connectOperator}.
 *
 * @param setUp adds what no definition can say, such as a controller of keys: `manager.controller`. Default: nothing.
 * @throws the errors of `setUp`, of the manager and of the controllers.
 *
 * @example
 * await runOperator(process, { name: 'greeter', controllers: [greetings], leaderElection: 'greeter' });
 */
export async function runOperator(
  process: OperatorProcess,
  options: RunOptions,
  setUp: (operator: Operator) => void | Promise<void> = () => {},
): Promise<void> {
  const { name, controllers = [], log = pino({ name }) } = options;
  const exitWith2 = (problem: string): void => {
    process.stderr.write(`${name}: ${printableLines(problem)}\n`);
    process.exitCode = 2;
  };
  let operator: Operator;
  try {
    const leaderElection = await electionOf(options.leaderElection, process.env);
    operator = await connectOperator({ ...options, log, leaderElection, environment: process.env });
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    return exitWith2(error.message);
  }
  for (const controller of controllers) controller.add(operator, options);
  await setUp(operator);
  const liveness = new Liveness(operator.manager, options.liveness);
  let server: HttpServer | undefined;
  try {
    server = await listen(options.port, operator, liveness);
  } catch (error) {
    liveness.stop();
    if (!isPortInUse(error)) throw error;
    return exitWith2(`port ${options.port} is in use: choose another one`);
  }
  try {
    await operator.run(terminationSignal(process, log));
  } catch (error) {
    if (!(error instanceof LeadershipLostError)) throw error;
    process.stderr.write(`${name}: ${printableLines(error.message)}\n`);
    // Exit explicitly, because a reconcile that does not end would keep the process alive.
    process.exit(1);
  } finally {
    liveness.stop();
    await server?.close();
  }
}

async function electionOf(
  option: RunOptions['leaderElection'],
  environment: NodeJS.ProcessEnv,
): Promise<LeaderElectionOptions | undefined> {
  if (typeof option !== 'string') return option;
  return { lease: { namespace: (await podNamespace(environment)) ?? 'default', name: option } };
}

const isPortInUse = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && 'code' in error && error.code === 'EADDRINUSE';

async function listen(
  port: number | undefined,
  operator: Operator,
  liveness: Liveness,
): Promise<HttpServer | undefined> {
  if (port === undefined) return undefined;
  return serve(port, { ...probeRoutes(operator, liveness), '/metrics': metricsRoute(operator.metrics) });
}
