import { type Config, ConfigError } from './config.ts';
import { addControllers } from './operator.ts';
import {
  connectOperator,
  type Listening,
  type Logger,
  metricsRoute,
  type Operator,
  probeRoutes,
  type Route,
  serve,
} from './runtime/index.ts';

/** The name under which the API server tracks the fields that the operator sets. */
export const fieldManager = 'echoperator';

/** What a run of the operator needs beside its config. */
export interface RunOptions {
  readonly config: Config;
  readonly environment: NodeJS.ProcessEnv;
  readonly log: Logger;
  /** Aborted to stop: the operator drains and {@link run} resolves. */
  readonly signal: AbortSignal;
  /** `echoperator/1.2.3` */
  readonly userAgent: string;
}

/**
 * Runs the operator standalone: informers, then workers, until the signal is aborted.
 *
 * @throws ConfigError for settings that this version can't honour and ports that are taken; ConnectionError when there
 *   is no way to the API server.
 */
export async function run({ config, environment, log, signal, userAgent }: RunOptions): Promise<void> {
  refuseHighAvailability(config);
  const operator = await connectOperator({
    name: fieldManager,
    environment,
    log,
    kubeconfigPath: config.kubeconfig,
    userAgent,
    eventSource: 'mmontes.io/echoperator',
    instance: config.ha.nodeId,
    drainTimeoutMs: config.shutdownTimeoutSeconds * 1000,
  });
  addControllers(operator.manager, config, operator.events);

  const servers = await listen(config, operator);
  log.info({ server: operator.connection.server.origin, workers: config.numWorkers, ha: false }, 'operator starts');
  void operator.manager.synced.then(giveMemoryBack);
  try {
    await operator.run(signal);
  } finally {
    await Promise.all(servers.map((server) => server.close()));
  }
  log.info({}, 'operator has stopped');
}

/**
 * What the first lists left behind is garbage that V8 would keep for a while, and its pages for longer: as much again as
 * what is cached. Node has `gc` where it is started with --expose-gc, as in the image.
 */
function giveMemoryBack(): void {
  void globalThis.gc?.({ execution: 'async', flavor: 'last-resort', type: 'major' });
}

function refuseHighAvailability(config: Config): void {
  if (!config.ha.enabled) return;
  throw new ConfigError(
    'HA_ENABLED=true is not supported yet: high availability (leader election by Lease) comes with a later release; set ha.enabled=false.',
  );
}

/** Opens the probes, and the metrics where they are wanted; on one of them failing, none stays open. */
async function listen(config: Config, { manager, metrics }: Operator): Promise<readonly Listening[]> {
  const health = await serveOn('HEALTH_PORT', config.healthPort, probeRoutes(manager));
  if (!config.metrics.enabled) return [health];
  const routes = { [config.metrics.path]: metricsRoute(metrics) };
  try {
    return [health, await serveOn('METRICS_PORT', config.metrics.port, routes)];
  } catch (error) {
    await health.close();
    throw error;
  }
}

async function serveOn(setting: string, port: number, routes: Readonly<Record<string, Route>>): Promise<Listening> {
  try {
    return await serve(port, routes);
  } catch (cause) {
    throw new ConfigError(`${setting}: got ${port}, takes a port that is free: ${String(cause)}`, { cause });
  }
}
