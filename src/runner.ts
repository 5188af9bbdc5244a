import { collectDefaultMetrics, Registry } from 'prom-client';
import { type Config, ConfigError } from './config.ts';
import { addControllers } from './operator.ts';
import {
  connect,
  EventRecorder,
  HttpClient,
  type Listening,
  type Logger,
  Manager,
  Metrics,
  type Route,
  serve,
  Transport,
} from './runtime/index.ts';

/** The name under which the API server tracks the fields that the operator sets. */
export const fieldManager = 'echoperator';

/** Events are a courtesy: the process does not outstay its grace period for one. */
const eventFlushTimeoutMs = 2000;

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
 * @throws ConfigError for settings that this version can't honour and ports that are taken; ConnectionError when there is no way to the API
 *   server.
 */
export async function run({ config, environment, log, signal, userAgent }: RunOptions): Promise<void> {
  refuseHighAvailability(config);
  const connection = await connect({ environment, kubeconfigPath: config.kubeconfig });
  const metrics = new Metrics(new Registry());
  collectDefaultMetrics({ register: metrics.registry });
  const transport = new Transport(connection, { userAgent, observe: metrics.requests(connection.server.host) });
  const client = new HttpClient(transport, fieldManager);
  const events = new EventRecorder({ client, controller: 'mmontes.io/echoperator', instance: config.ha.nodeId, log });
  const drainTimeoutMs = config.shutdownTimeoutSeconds * 1000;
  const manager = new Manager({ client, log, metrics, drainTimeoutMs });
  addControllers(manager, config, events);

  const servers = await listen(config, manager, metrics);
  log.info({ server: connection.server.origin, workers: config.numWorkers, ha: false }, 'operator starts');
  try {
    await manager.run(signal);
    await events.flush(eventFlushTimeoutMs);
  } finally {
    await Promise.all(servers.map((server) => server.close()));
    await transport.close();
  }
  log.info({}, 'operator has stopped');
}

function refuseHighAvailability(config: Config): void {
  if (!config.ha.enabled) return;
  throw new ConfigError(
    'HA_ENABLED=true is not supported yet: high availability (leader election by Lease) comes with a later release; set ha.enabled=false.',
  );
}

/** Opens the probes, and the metrics where they are wanted; on one of them failing, none stays open. */
async function listen(config: Config, manager: Manager, metrics: Metrics): Promise<readonly Listening[]> {
  const health = await serveOn('HEALTH_PORT', config.healthPort, {
    '/healthz': () => ({ code: 200, text: 'ok\n' }),
    '/readyz': () => readyz(manager),
  });
  if (!config.metrics.enabled) return [health];
  const expose: Route = async () => ({
    code: 200,
    contentType: metrics.registry.contentType,
    text: await metrics.registry.metrics(),
  });
  try {
    return [health, await serveOn('METRICS_PORT', config.metrics.port, { [config.metrics.path]: expose })];
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

function readyz(manager: Manager): { code: number; text: string } {
  const { ready, waitingFor } = manager.readiness();
  if (ready) return { code: 200, text: 'ok\n' };
  return {
    code: 503,
    text: waitingFor.length === 0 ? 'stopping\n' : `waiting for the cache of ${waitingFor.join(', ')}\n`,
  };
}
