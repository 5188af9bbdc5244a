import { randomUUID } from 'node:crypto';
import { type Config, ConfigError } from './config.ts';
import { addControllers } from './operator.ts';
import { isInCluster } from './runtime/client/index.ts';
import type { Logger, Operator } from './runtime/index.ts';
import { checkedTimings, type LeaseTimings, PodContainers } from './runtime/leader-election/index.ts';
import {
  connectOperator,
  type LeaderElectionOptions,
  type Listening,
  Liveness,
  metricsRoute,
  probeRoutes,
  type Route,
  serve,
} from './runtime/process/index.ts';

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
 * Runs the operator until the signal is aborted: leadership where there is one to be had, then informers, then workers.
 *
 * @throws ConfigError for settings that don't fit together and ports that are taken; ConnectionError when there is no way
 *   to the API server; LeadershipLostError as soon as another may lead, whatever is still under way.
 */
export async function run({ config, environment, log, signal, userAgent }: RunOptions): Promise<void> {
  const leaderElection = leaderElectionOf(config, environment, log);
  const operator = await connectOperator({
    name: fieldManager,
    environment,
    log,
    kubeconfigPath: config.kubeconfig,
    userAgent,
    eventSource: 'mmontes.io/echoperator',
    instance: config.ha.nodeId,
    drainTimeoutMs: config.shutdownTimeoutSeconds * 1000,
    leaderElection,
  });
  const closeOutside = await addControllers(operator, config);

  const liveness = new Liveness(operator.manager);
  const servers = await listen(config, operator, liveness);
  const { numWorkers: workers, watchNamespaces: namespaces = 'all' } = config;
  const { origin } = operator.connection.server;
  log.info({ server: origin, workers, namespaces, ha: config.ha.enabled }, 'operator starts');
  void operator.manager.synced.then(() => setTimeout(giveMemoryBack, collectAfterMs).unref());
  try {
    await operator.run(signal);
    await closeOutside();
  } finally {
    liveness.stop();
    await Promise.all(servers.map((server) => server.close()));
  }
  log.info({}, 'operator has stopped');
}

/** A new leader has work waiting when its caches have synced, and a collection takes a tenth of a second. */
const collectAfterMs = 1000;

/**
 * What the first lists left behind is garbage that V8 would keep for a while, and its pages for longer: as much again as
 * what is cached. Node has `gc` where it is started with --expose-gc, as in the image.
 */
function giveMemoryBack(): void {
  void globalThis.gc?.({ execution: 'async', flavor: 'last-resort', type: 'major' });
}

/**
 * Which Lease the operator contends for, if any. A lone replica in a cluster takes it too: while the Deployment replaces its
 * pod, or somebody turns high availability on or off, an old and a new one may overlap.
 *
 * @throws ConfigError for times that don't fit together.
 */
export function leaderElectionOf(
  config: Config,
  environment: NodeJS.ProcessEnv,
  log: Logger,
): LeaderElectionOptions | undefined {
  const { namespace, kubeconfig, ha } = config;
  const timings = timingsOf(config);
  if (!ha.enabled && (kubeconfig !== undefined || !isInCluster(environment))) return undefined;
  return {
    lease: { namespace, name: ha.leaseLockName },
    // The uuid: a setting that two replicas share makes no two leaders.
    identity: `${ha.nodeId}_${randomUUID()}`,
    timings,
    warmStandby: ha.enabled && ha.warmStandby,
    ...containersOf(config, log),
  };
}

/** A crash is seen by the status of the leader's pod, where this process knows which container it runs in itself. */
function containersOf(
  { namespace, pod, containerName }: Config,
  log: Logger,
): Pick<LeaderElectionOptions, 'containers'> {
  const { name: podName, uid: podUid } = pod;
  if (podName === undefined || podUid === undefined || containerName === undefined) return {};
  return {
    containers: (client) => new PodContainers({ client, namespace, podName, podUid, containerName, log }),
  };
}

function timingsOf({ ha }: Config): LeaseTimings {
  const { leaseDurationSeconds, renewDeadlineSeconds, retryPeriodSeconds } = ha;
  const variables = {
    leaseDurationSeconds: 'HA_LEASE_DURATION_SECONDS',
    renewDeadlineSeconds: 'HA_RENEW_DEADLINE_SECONDS',
    retryPeriodSeconds: 'HA_RETRY_PERIOD_SECONDS',
  } as const;
  try {
    const timings = { leaseDurationSeconds, renewDeadlineSeconds, retryPeriodSeconds };
    return checkedTimings(timings, (timing) => variables[timing]);
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new ConfigError(cause.message, { cause });
  }
}

/** Opens the probes, and the metrics where they are wanted; on one of them failing, none stays open. */
async function listen(config: Config, operator: Operator, liveness: Liveness): Promise<readonly Listening[]> {
  const health = await serveOn('HEALTH_PORT', config.healthPort, probeRoutes(operator, liveness));
  if (!config.metrics.enabled) return [health];
  const routes = { [config.metrics.path]: metricsRoute(operator.metrics) };
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
