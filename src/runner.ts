import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Logger, runOperator } from '@echoperator/runtime';
import { isInCluster } from '@echoperator/runtime/client';
import { type LeaseTimings, PodCrashDetector, validateTimings } from '@echoperator/runtime/leader-election';
import type { LeaderElectionOptions, OperatorProcess } from '@echoperator/runtime/process';
import { type Config, ConfigError } from './config.ts';
import { addControllers, disabledKinds } from './operator.ts';

export { controllerDisabled } from './operator.ts';

/** The field manager of the operator's writes. */
export const fieldManager = 'echoperator';

/** What {@link run} needs. */
export interface RunOptions {
  readonly process: OperatorProcess;
  readonly config: Config;
  readonly log: Logger;
  /** `echoperator/1.2.3` */
  readonly userAgent: string;
}

/**
 * Runs the operator with the settings of `config`, by {@link runOperator}. With leader election the operator waits for
 * the Lease first. Then it starts the informers, and then the workers. A warm standby starts the informers while it
 * waits.
 *
 * @throws ConfigError for settings that contradict each other; the errors of {@link runOperator}.
 */
export async function run({ process, config, log, userAgent }: RunOptions): Promise<void> {
  const { kubeconfig, ha, healthPort, metrics, explainDir } = config;
  const disabled = disabledKinds(config);
  const options = {
    name: fieldManager,
    log,
    kubeconfigPath: kubeconfig,
    userAgent,
    reportingController: 'mmontes.io/echoperator',
    instance: ha.nodeId,
    drainTimeoutMs: config.shutdownTimeoutSeconds * 1000,
    leaderElection: leaderElectionOf(config, process.env, log),
    port: healthPort,
    metrics: metrics.enabled && { port: metrics.port, path: metrics.path },
    explain:
      explainDir === undefined ? undefined : { folder: explainDir, notes: (kind: string) => notesOf(kind, disabled) },
  };
  await runOperator(process, options, (operator) => {
    addControllers(operator, config);
    const { numWorkers: workers, watchNamespaces: namespaces = 'all' } = config;
    log.info({ workers, namespaces, ha: ha.enabled }, 'settings');
    void operator.manager.synced.then(collectWhenIdle);
  });
}

function notesOf(kind: string, disabled: ReadonlyMap<string, string>): readonly string[] {
  const setting = disabled.get(kind);
  return setting === undefined ? [] : [`the controller of ${kind} is disabled (${setting})`];
}

/** How often the process checks whether it is idle, and at most how many times. */
const checkEveryMs = 1000;
const maxChecks = 60;

/**
 * Collects garbage when the process has been idle for most of a second. When the caches have synced, the queue of a new
 * leader is full, and its reconciles leave as much garbage as the lists.
 */
async function collectWhenIdle(): Promise<void> {
  for (let check = 0; check < maxChecks; check += 1) {
    const before = performance.eventLoopUtilization();
    await delay(checkEveryMs, undefined, { ref: false });
    if (performance.eventLoopUtilization(before).utilization < 0.5) break;
  }
  collectGarbage();
}

/**
 * Frees the garbage of the initial lists, which V8 would keep for a while. It is about as large as the caches. `gc`
 * exists if Node runs with --expose-gc, as in the image.
 */
function collectGarbage(): void {
  void globalThis.gc?.({ execution: 'async', flavor: 'last-resort', type: 'major' });
}

/**
 * The options of leader election; undefined if the operator contends for no Lease. In a cluster a single replica
 * contends too, because an old and a new pod may overlap, for example while high availability is switched on or off. A
 * process that a person starts holds a Lease so that other operators find its scope.
 *
 * @throws ConfigError for times that contradict each other, even if there is no leader election.
 */
export function leaderElectionOf(
  config: Config,
  environment: NodeJS.ProcessEnv,
  log: Logger,
): LeaderElectionOptions | undefined {
  const { namespace, kubeconfig, ha, scopeCheck, watchNamespaces: namespaces = 'all' } = config;
  const timings = timingsOf(config);
  const isByHand = kubeconfig !== undefined || !isInCluster(environment);
  // With a uuid, so that replicas that share a node ID by mistake still have different identities.
  const identity = `${ha.nodeId}_${randomUUID()}`;
  const isAlone = isByHand && !ha.enabled;
  const scope = scopeCheck && { scope: { namespaces, lookIn: isAlone ? 'allNamespaces' : 'ownNamespace' } as const };
  if (isAlone) {
    return scope
      ? { lease: { namespace, name: leaseByHand(config) }, identity, timings: timingsByHand, ...scope }
      : undefined;
  }
  return {
    lease: { namespace, name: ha.leaseLockName },
    identity,
    timings,
    warmStandby: ha.enabled && ha.warmStandby,
    ...crashDetectionOf(config, log),
    ...scope,
  };
}

/**
 * The times are long, because nobody restarts such a process after it has lost its Lease during an outage of the API
 * server.
 */
const timingsByHand: LeaseTimings = { leaseDurationSeconds: 60, renewDeadlineSeconds: 45, retryPeriodSeconds: 5 };

/**
 * The name differs from the name of every release's Lease, because the process must not contend for those. It depends
 * on the namespaces, because two processes may watch different namespaces.
 */
function leaseByHand({ watchNamespaces }: Config): string {
  if (watchNamespaces === undefined) return 'echoperator-by-hand';
  const hash = createHash('sha256')
    .update([...watchNamespaces].sort().join())
    .digest('hex')
    .slice(0, 10);
  return `echoperator-by-hand-${hash}`;
}

/** The annotation of the Lease in which a leader describes its container. */
const holderAnnotation = 'leader-election.echoperator.io/holder';

/** Crash detection needs this process's pod and container. The chart sets them with the downward API. */
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
