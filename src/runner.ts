import { randomUUID } from 'node:crypto';
import { type Config, ConfigError } from './config.ts';
import { addControllers, disabledKinds } from './operator.ts';
import { isInCluster } from './runtime/client/index.ts';
import type { Logger, Operator } from './runtime/index.ts';
import { type LeaseTimings, PodCrashDetector, validateTimings } from './runtime/leader-election/index.ts';
import {
  type ActivityQuery,
  connectOperator,
  type ExplainAnswer,
  type ExplainQuery,
  FlightRecorder,
  type HttpServer,
  type LeaderElectionOptions,
  Liveness,
  metricsRoute,
  probeRoutes,
  type Route,
  serve,
  serveExplanations,
} from './runtime/process/index.ts';

export { controllerDisabled } from './operator.ts';

/** The field manager of the operator's writes. */
export const fieldManager = 'echoperator';

/** What {@link run} needs. */
export interface RunOptions {
  readonly config: Config;
  readonly environment: NodeJS.ProcessEnv;
  readonly log: Logger;
  /** Stops the operator when aborted: it drains, and {@link run} resolves. */
  readonly signal: AbortSignal;
  /** `echoperator/1.2.3` */
  readonly userAgent: string;
}

/**
 * Runs the operator until the signal is aborted. With leader election it waits for the Lease first; then it starts the
 * informers, then the workers. A warm standby starts the informers while it waits.
 *
 * @throws ConfigError for settings that contradict each other and for ports that are in use; ConnectionError if no API
 *   server is configured; LeadershipLostError as soon as another process may lead, without waiting for reconciles in
 *   flight.
 */
export async function run(options: RunOptions): Promise<void> {
  const { config, environment, log } = options;
  const leaderElection = leaderElectionOf(config, environment, log);
  const explaining = await startExplaining(config, log);
  try {
    await runOperator(options, leaderElection, explaining);
  } finally {
    await explaining?.close();
  }
}

async function runOperator(
  { config, environment, log, signal, userAgent }: RunOptions,
  leaderElection: LeaderElectionOptions | undefined,
  explaining: Explaining | undefined,
): Promise<void> {
  const operator = await connectOperator({
    name: fieldManager,
    environment,
    log,
    kubeconfigPath: config.kubeconfig,
    userAgent,
    reportingController: 'mmontes.io/echoperator',
    instance: config.ha.nodeId,
    drainTimeoutMs: config.shutdownTimeoutSeconds * 1000,
    leaderElection,
    observer: explaining?.recorder,
  });
  explaining?.setOperator(operator);
  addControllers(operator, config);

  const liveness = new Liveness(operator.manager);
  const servers = await listen(config, operator, liveness);
  const { numWorkers: workers, watchNamespaces: namespaces = 'all' } = config;
  const { origin } = operator.connection.server;
  log.info({ server: origin, workers, namespaces, ha: config.ha.enabled }, 'operator starts');
  void operator.manager.synced.then(() => setTimeout(collectGarbage, collectAfterMs).unref());
  try {
    await operator.run(signal);
  } finally {
    liveness.stop();
    await Promise.all(servers.map((server) => server.close()));
  }
  log.info({}, 'operator has stopped');
}

/**
 * Delays the collection, which takes about 100 ms, because the queue of a new leader is full when its caches have
 * synced.
 */
const collectAfterMs = 1000;

/**
 * Frees what the initial lists have left behind: about as much memory as the caches hold, which V8 would keep for a
 * while. `gc` exists if Node runs with --expose-gc, as in the image.
 */
function collectGarbage(): void {
  void globalThis.gc?.({ execution: 'async', flavor: 'last-resort', type: 'major' });
}

/**
 * The options of leader election; undefined if the operator contends for no Lease. In a cluster a single replica contends too: an old
 * pod and a new one may overlap, for example while high availability is switched on or off.
 *
 * @throws ConfigError for times that contradict each other, even if there is no leader election.
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
    // With a uuid, so that replicas that share a node ID by mistake still have different identities.
    identity: `${ha.nodeId}_${randomUUID()}`,
    timings,
    warmStandby: ha.enabled && ha.warmStandby,
    ...crashDetectionOf(config, log),
  };
}

/** The annotation of the Lease in which a leader describes its container. */
const holderAnnotation = 'leader-election.echoperator.io/holder';

/** Crash detection needs to know the own pod and container. The chart sets them by the downward API. */
function crashDetectionOf(
  { namespace, pod, containerName }: Config,
  log: Logger,
): Pick<LeaderElectionOptions, 'crashDetector'> {
  const { name: podName, uid: podUid } = pod;
  if (podName === undefined || podUid === undefined || containerName === undefined) return {};
  const container = { namespace, podName, podUid, containerName };
  return {
    crashDetector: (client) => new PodCrashDetector({ client, annotation: holderAnnotation, ...container, log }),
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
    return validateTimings(timings, (timing) => variables[timing]);
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new ConfigError(cause.message, { cause });
  }
}

/** Serves the probes and, if enabled, the metrics. If one port fails, the other one is closed again. */
async function listen(config: Config, operator: Operator, liveness: Liveness): Promise<readonly HttpServer[]> {
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

/** What records reconciles, and answers the queries of `explain` about them. */
interface Explaining {
  readonly recorder: FlightRecorder;
  readonly setOperator: (operator: Operator) => void;
  readonly close: () => Promise<void>;
}

/** Explanations are a help, not a need: where the socket cannot be made, the operator runs without, and nothing is recorded. */
export async function startExplaining(config: Config, log: Logger): Promise<Explaining | undefined> {
  const { explainDir } = config;
  if (explainDir === undefined) return undefined;
  const recorder = new FlightRecorder();
  let operator: Operator | undefined;
  const answer = (query: ExplainQuery | ActivityQuery): ExplainAnswer =>
    operator === undefined
      ? { problem: 'the operator starts: ask again', notes: [] }
      : answerOf(query, config, operator, recorder);
  try {
    const server = await serveExplanations(explainDir, answer, log);
    return {
      recorder,
      setOperator: (started) => {
        operator = started;
      },
      close: () => server.close(),
    };
  } catch (error) {
    log.warn({ err: error, folder: explainDir }, 'no socket for explain: change EXPLAIN_DIR');
    return undefined;
  }
}

function answerOf(
  query: ExplainQuery | ActivityQuery,
  config: Config,
  operator: Operator,
  recorder: FlightRecorder,
): ExplainAnswer {
  const leadership = operator.leadership();
  const { notes, ...answer } =
    'kind' in query ? explainObject(query, config, recorder) : { notes: [], activity: recorder.explainActivity(query) };
  return {
    ...answer,
    notes: [...(operator.elector?.isLeading === false ? ['this replica does not lead: ask the leader'] : []), ...notes],
    ...(leadership !== undefined && {
      leader: {
        identity: leadership.identity,
        isThisReplica: leadership.isThisProcess,
        since: leadership.since.toISOString(),
        ...(leadership.because !== undefined && { because: leadership.because }),
      },
    }),
  };
}

function explainObject(query: ExplainQuery, config: Config, recorder: FlightRecorder): ExplainAnswer {
  const explanation = recorder.explain(query);
  if (explanation === undefined) {
    const problem = `this operator reconciles no kind ${query.kind}: name it as echo or echos.mmontes.io`;
    return { problem, notes: [] };
  }
  const setting = disabledKinds(config).get(explanation.kind);
  const notes = setting === undefined ? [] : [`the controller of ${explanation.kind} is disabled (${setting})`];
  return { explanation, notes };
}

async function serveOn(setting: string, port: number, routes: Readonly<Record<string, Route>>): Promise<HttpServer> {
  try {
    return await serve(port, routes);
  } catch (cause) {
    throw new ConfigError(`${setting}: got ${port}, takes a port that is free: ${String(cause)}`, { cause });
  }
}
