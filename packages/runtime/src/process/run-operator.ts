import { pino } from 'pino';
import { ConnectionError } from '../client/connection.ts';
import { createClient } from '../client/create-client.ts';
import { podNamespace } from '../client/in-cluster.ts';
import type { AddOptions, DefinedController } from '../controller/define-controller.ts';
import { LeadershipLostError, ScopeTakenError } from '../leader-election/errors.ts';
import { type HttpServer, type Route, serve } from '../observability/http-server.ts';
import { printableLines } from '../observability/printable.ts';
import { combineObservers } from '../observer/combine-observers.ts';
import type { Logger } from '../shared/logger.ts';
import type { LeaderElectionOptions } from './candidate.ts';
import { type ConnectOptions, connectOperator, type Operator } from './connect-operator.ts';
import { Liveness, type LivenessOptions } from './liveness.ts';
import type { OperatorService, RunningService } from './operator-service.ts';
import { metricsRoute, probeRoutes } from './routes.ts';
import { type ExplainOptions, startExplaining } from './start-explaining.ts';
import { requireStoredVersions, StoredVersionError } from './stored-versions.ts';
import { type TerminableProcess, terminationSignal } from './termination-signal.ts';

/** The part of Node's `process` that {@link runOperator} uses. */
export interface OperatorProcess extends TerminableProcess {
  readonly env: NodeJS.ProcessEnv;
  readonly stderr: { write(text: string): unknown };
  exitCode?: number | string | null | undefined;
}

/** Options of {@link runOperator}. */
export interface RunOptions extends Omit<ConnectOptions, 'environment' | 'log' | 'leaderElection'>, AddOptions {
  /**
   * The controllers to run. Options such as `namespaces` and `workers` apply to each controller whose definition does
   * not set them.
   */
  readonly controllers?: readonly DefinedController[];
  /** Default: pino, which writes JSON lines to stdout. */
  readonly log?: Logger;
  /**
   * The name of a Lease in the pod's namespace (outside a cluster: `default`), or options. Default: no leader election.
   */
  readonly leaderElection?: string | LeaderElectionOptions | undefined;
  /** The port of `/healthz`, `/readyz` and `/metrics`. Default: these are not served. */
  readonly port?: number;
  /** Serves the metrics on a separate port; `false` disables them. Default: `/metrics` on `port`. */
  readonly metrics?: { readonly port: number; readonly path: string } | false;
  /** Serves explanations for `askForExplanation`. Default: none are served, and reconciles are not recorded. */
  readonly explain?: ExplainOptions | undefined;
  /** Options of `/healthz`. */
  readonly liveness?: LivenessOptions;
  /** Serves webhooks: `webhooks` of `@echoperator/runtime/admission`. Default: none. */
  readonly webhooks?: OperatorService;
}

/**
 * Runs an operator as the whole process: connects, adds the controllers, runs until SIGTERM or SIGINT, and stops
 * gracefully. It handles the signals of the process. On these failures it sets an exit code and writes one line to
 * stderr:
 *
 * - 2 if no API server is configured, a port is in use, or the cluster may hold objects in a version that a kind with
 *   versions lacks;
 * - 1 if it loses its Lease, or another operator works in its scope. The process then exits at once, even if reconciles
 *   still run.
 *
 * For other behavior use {@link connectOperator}.
 *
 * @param setUp adds what no definition can express, such as a controller of keys: `manager.controller`. Default:
 *   nothing.
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
  const { name, log = pino({ name }) } = options;
  const exitWith = (code: 1 | 2, { message }: Error): void => {
    process.stderr.write(`${name}: ${printableLines(message)}\n`);
    process.exitCode = code;
  };
  try {
    await run(process, { ...options, log }, setUp, (lost) => {
      exitWith(1, lost);
      // Exit explicitly: a reconcile that does not end would keep the process alive.
      process.exit(1);
    });
  } catch (error) {
    const isExpected = [ConnectionError, PortInUseError, StoredVersionError].some((type) => error instanceof type);
    if (!(isExpected && error instanceof Error)) throw error;
    exitWith(2, error);
  }
}

async function run(
  process: OperatorProcess,
  options: RunOptions & Pick<ConnectOptions, 'log'>,
  setUp: (operator: Operator) => void | Promise<void>,
  exit: (error: LeadershipLostError | ScopeTakenError) => void,
): Promise<void> {
  const { name, controllers = [], explain, log } = options;
  const leaderElection = await electionOf(options.leaderElection, process.env);
  const explaining = explain && (await startExplaining(explain, log));
  const closers: (() => unknown)[] = [() => explaining?.close()];
  try {
    const observers = [explaining?.recorder, options.observer].filter((observer) => observer !== undefined);
    const observer = combineObservers(observers);
    const operator = await connectOperator({ ...options, leaderElection, observer, environment: process.env });
    explaining?.setOperator(operator);
    for (const controller of controllers) controller.add(operator, options);
    await setUp(operator);
    const liveness = new Liveness(operator.manager, options.liveness);
    closers.push(() => liveness.stop());
    const service = await options.webhooks?.start(operator, { log, environment: process.env }).catch(throwPortInUse);
    let stopped: Promise<void> | undefined;
    const stopService = () => (stopped ??= service?.stop() ?? Promise.resolve());
    closers.push(stopService);
    for (const [port, routes] of portsOf(options, withService(operator, service), liveness)) {
      const server = await listen(port, routes);
      closers.push(() => server.close());
    }
    log.info({ server: operator.connection.server.origin }, 'operator starts');
    const signal = terminationSignal(process, log);
    // The service stops beside the operator, because it serves until others know that this process stops. The Lease is
    // released meanwhile.
    signal.addEventListener('abort', () => void stopService().catch(() => {}));
    // Every replica checks it before it is ready, so that a rollout does not replace the replicas of an earlier version.
    await requireAllStoredVersions(operator, { name, controllers, log }, signal);
    await operator.run(signal);
    await stopService();
    log.info({}, 'operator has stopped');
  } catch (error) {
    if (!(error instanceof LeadershipLostError || error instanceof ScopeTakenError)) throw error;
    exit(error);
  } finally {
    await Promise.all(closers.map((close) => close()));
  }
}

async function electionOf(
  option: RunOptions['leaderElection'],
  environment: NodeJS.ProcessEnv,
): Promise<LeaderElectionOptions | undefined> {
  if (typeof option !== 'string') return option;
  return { lease: { namespace: (await podNamespace(environment)) ?? 'default', name: option } };
}

async function requireAllStoredVersions(
  { connection }: Operator,
  {
    name,
    controllers,
    log,
  }: { readonly controllers: readonly DefinedController[] } & Pick<ConnectOptions, 'name' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  const kinds = controllers.map(({ kind }) => kind).filter(({ versions = [] }) => versions.length > 0);
  if (kinds.length === 0) return;
  // A client of its own: a standby checks too.
  const client = createClient(connection, { fieldManager: name });
  try {
    for (const kind of kinds) await requireStoredVersions(client, kind, log, signal);
  } finally {
    await client.close();
  }
}

type Routes = Readonly<Record<string, Route>>;

/** The operator is ready only if its service is. */
const withService = (operator: Operator, service: RunningService | undefined): ObservedOperator => ({
  metrics: operator.metrics,
  readiness: () => {
    const readiness = operator.readiness();
    const waitingFor = service?.waitingFor();
    return readiness.ready && waitingFor !== undefined
      ? { ready: false, waitingFor: [], service: waitingFor }
      : readiness;
  },
});

type ObservedOperator = Pick<Operator, 'metrics' | 'readiness'>;

/** The routes of each port. */
function portsOf(
  { port, metrics }: Pick<RunOptions, 'port' | 'metrics'>,
  operator: ObservedOperator,
  liveness: Liveness,
): readonly (readonly [port: number, Routes])[] {
  const exposed = metricsRoute(operator.metrics);
  const probes = { ...probeRoutes(operator, liveness), ...(metrics === undefined && { '/metrics': exposed }) };
  return [
    ...(port === undefined ? [] : [[port, probes] as const]),
    ...(metrics ? [[metrics.port, { [metrics.path]: exposed }] as const] : []),
  ];
}

function throwPortInUse(cause: unknown): never {
  const { code, port } = cause as NodeJS.ErrnoException & { readonly port?: number };
  if (code !== 'EADDRINUSE') throw cause;
  throw new PortInUseError(`port ${port} of the webhooks is in use: choose another one`, { cause });
}

class PortInUseError extends Error {
  override readonly name = 'PortInUseError';
}

async function listen(port: number, routes: Routes): Promise<HttpServer> {
  try {
    return await serve(port, routes);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw cause;
    throw new PortInUseError(`port ${port} of ${Object.keys(routes)[0]} is in use: choose another one`, { cause });
  }
}
