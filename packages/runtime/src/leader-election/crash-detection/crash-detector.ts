import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { Pod } from '../../built-in-kinds/built-in-kinds.ts';
import { Reflector } from '../../cache/reflector.ts';
import { isForbidden } from '../../client/api-error.ts';
import type { Client } from '../../client/client.ts';
import type { ObjectKey } from '../../kind/object.ts';
import type { Logger } from '../../shared/logger.ts';
import {
  type ContainerInstance,
  findContainer,
  findOwnContainer,
  formatDescription,
  parseDescription,
  readStartTime,
  type StartTime,
} from './container-instance.ts';
import { provesEarlierTermination, provesTermination } from './termination-proof.ts';

/*
 * Crash detection: a standby learns that the process that holds a Lease has ended, and takes over before the Lease
 * expires.
 *
 * A leader publishes on its Lease which container it runs in, and writes a token into that container's termination
 * message. The standbys watch the leader's pod. When the pod's status shows that the container has terminated with that
 * token, the process is proven to have ended and its Lease is free.
 *
 * *Guarantees.* {@link PodCrashDetector.waitForEnd} resolves only if every process of the leader's container instance
 * has ended. Without proof it never resolves and the Lease expires as usual, so detection can only make a takeover
 * faster.
 *
 * *Assumptions.* The kubelet and the container runtime report terminations truthfully. Only the kubelet writes the
 * status of pods. etcd was not restored to a time before the pod was scheduled. Requests that the ended process has
 * already sent may still be executed, as after any other takeover.
 *
 * *Limits.* A lost node, a node without network, a deleted pod and a hanging process prove nothing. Detection is off in
 * static pods, in pods that share a PID namespace, where /proc is missing, and without permission to list and watch
 * pods.
 *
 * *Sources.* The first process of a PID namespace is reaped only after the kernel has killed all others
 * (pid_namespaces(7)). The kubelet creates an empty termination message file for each container instance (makeMounts in
 * pkg/kubelet/kuberuntime) and restarts a container only after the instance before it has ended (computePodActions,
 * same package).
 */

/**
 * Informs a standby that the process that holds a Lease has ended. A candidate publishes a description of its process
 * on the Lease. Only the detector interprets the description.
 */
export interface CrashDetector {
  /** The annotation of the Lease that holds the description. It must be the same for all candidates for a Lease. */
  readonly annotation: string;
  /**
   * Describes this process to other candidates. A leader calls it once.
   *
   * @param holderIdentity this candidate's identity on the Lease.
   * @returns the description; undefined if the end of this process could never be proven.
   * @throws the signal's reason.
   */
  describeProcess(holderIdentity: string, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Resolves when it is proven that the described process has ended. Without proof it never resolves.
   *
   * @param holderIdentity the current holder of the Lease. A description that names another holder is not proof of
   *   anything.
   * @throws the signal's reason.
   */
  waitForEnd(holderIdentity: string, description: string, signal: AbortSignal): Promise<void>;
}

/** The container of this process, from the downward API, and the client that reads pods. */
export interface PodCrashDetectorOptions {
  /** Needs `list` and `watch` of pods in the namespace, and must not have a gate: standbys use it too. */
  readonly client: Pick<Client, 'list' | 'watchBatches'>;
  /** The Lease's annotation for descriptions, for example `greeter.example.com/holder`. The same for all candidates. */
  readonly annotation: string;
  readonly namespace: string;
  readonly podName: string;
  readonly podUid: string;
  readonly containerName: string;
  readonly log: Logger;
  /**
   * When this container's first process was created, in milliseconds since 1970 by the node's wall clock. Default: the
   * constructor reads it from /proc.
   */
  readonly startedAtMs?: number;
}

const undetectable = 'a crash of this leader will be noticed only when its lease expires';

/**
 * Detects crashes by the status of pods, which the kubelet writes.
 *
 * - A `terminated` state, current or last, is proof if it has the published pod uid, container name and container ID.
 *   Its message must contain the published token, and the container runtime must have observed its reason and exit
 *   code.
 * - A restarted container also detects the end of its own earlier instances, without the token.
 *
 * A missing permission to read pods is logged once as a warning; detection starts when the permission is granted.
 *
 * @example
 * const crashDetector = new PodCrashDetector({
 *   client,
 *   annotation: 'greeter.example.com/holder',
 *   namespace: 'default',
 *   podName: 'greeter-0',
 *   podUid: '1b4e28ba-2fa1-11d2-883f-0016d3cca427',
 *   containerName: 'greeter',
 *   log,
 * });
 */
export class PodCrashDetector implements CrashDetector {
  readonly annotation: string;
  readonly #options: PodCrashDetectorOptions;
  readonly #startTime: StartTime;
  readonly #watchLog: Logger;

  constructor(options: PodCrashDetectorOptions) {
    const { annotation, startedAtMs, log } = options;
    this.annotation = annotation;
    this.#options = options;
    this.#startTime = startedAtMs === undefined ? readStartTime() : { type: 'known', ms: startedAtMs };
    this.#watchLog = logForbiddenOnce(log);
  }

  /**
   * Describes this process's container as soon as the status of its pod shows it running. Undefined if the container's
   * end would not prove the end of all its processes, or if it has no termination message file. A log line then says
   * why.
   *
   * Each call adds another token to the termination message.
   *
   * @throws the signal's reason.
   */
  async describeProcess(holderIdentity: string, signal: AbortSignal): Promise<string | undefined> {
    const { namespace, podName, podUid, containerName, log } = this.#options;
    const find = (pod: Pod) => findOwnContainer(pod, this.#options, this.#startTime);
    const own = await this.#waitForPod(this.#options, find, signal);
    if (own.type === 'unprovable') {
      log.info({ why: own.why }, undetectable);
      return undefined;
    }
    const { containerId, terminationMessagePath } = own;
    const terminationToken = crypto.randomUUID();
    try {
      await new TerminationMessageFile(terminationMessagePath).appendLine(`leader election: ${terminationToken}`);
    } catch (error) {
      log.warn({ err: error }, undetectable);
      return undefined;
    }
    const container = { namespace, podName, podUid, containerName, containerId, terminationToken };
    return formatDescription(holderIdentity, container);
  }

  /**
   * Resolves when the status of the described pod proves that the container has ended. It watches that pod until then.
   * If the description is not that of the holder, it never resolves.
   *
   * @throws the signal's reason.
   */
  async waitForEnd(holderIdentity: string, description: string, signal: AbortSignal): Promise<void> {
    const container = parseDescription(description, holderIdentity);
    if (container === undefined) return waitForAbort(signal);
    const isEarlier = this.#isOwnContainer(container) && (await this.#isEarlierInstance(container, signal));
    const proves = isEarlier ? provesEarlierTermination : provesTermination;
    await this.#waitForPod(container, (pod) => proves(pod, container) || undefined, signal);
    this.#options.log.info(
      { leader: holderIdentity, container: container.containerId },
      "the leader's container has ended",
    );
  }

  /** Whether the described container is this process's own, possibly another instance of it. */
  #isOwnContainer({ podUid, containerName }: ContainerInstance): boolean {
    return podUid === this.#options.podUid && containerName === this.#options.containerName;
  }

  /**
   * Whether the described container is an earlier instance of our own. It is our own instance if another process in it,
   * for example one started by `kubectl exec`, holds the Lease. Then that process's token is in our termination
   * message.
   */
  async #isEarlierInstance(container: ContainerInstance, signal: AbortSignal): Promise<boolean> {
    const { podUid, containerName, log } = this.#options;
    const find = (pod: Pod) => (pod.metadata.uid === podUid ? findContainer(pod, containerName) : undefined);
    const { terminationMessagePath = '' } = await this.#waitForPod(this.#options, find, signal);
    try {
      return !(await new TerminationMessageFile(terminationMessagePath).includes(container.terminationToken));
    } catch (error) {
      log.debug({ err: error }, 'cannot determine whether this container was restarted');
      return false;
    }
  }

  #waitForPod<T>(
    { namespace, podName }: { readonly namespace: string; readonly podName: string },
    find: (pod: Pod) => T | undefined,
    signal: AbortSignal,
  ): Promise<T> {
    const options = { client: this.#options.client, log: this.#watchLog };
    return waitForPod(options, { namespace, name: podName }, find, signal);
  }
}

/** Never resolves. @throws the signal's reason. */
function waitForAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** What {@link waitForPod} needs. */
interface PodWatchOptions {
  readonly client: Pick<Client, 'list' | 'watchBatches'>;
  readonly log: Logger;
}

/**
 * Watches one pod until `find` returns a value, and resolves with that value. Errors of the watch are logged and
 * retried.
 *
 * @throws the signal's reason.
 */
async function waitForPod<T>(
  { client, log }: PodWatchOptions,
  { namespace, name }: Required<ObjectKey>,
  find: (pod: Pod) => T | undefined,
  signal: AbortSignal,
): Promise<T> {
  const found = Promise.withResolvers<T>();
  const done = new AbortController();
  const check = (pod: Pod): void => {
    const value = find(pod);
    if (value !== undefined) found.resolve(value);
  };
  const reflector = new Reflector<Pod>({
    client,
    kind: Pod,
    selection: { namespace, fieldSelector: `metadata.name=${name}` },
    target: {
      prepare: (pod) => pod,
      replace: (pods) => pods.forEach(check),
      takeEvents: (events) => {
        for (const event of events) if (event.type !== 'BOOKMARK') check(event.object);
      },
    },
    log,
    listing: 'paged',
    backoff: { initialMs: 100, maxMs: 30_000 },
  });
  const running = reflector.run(AbortSignal.any([signal, done.signal]));
  try {
    await Promise.race([found.promise, running]);
    signal.throwIfAborted();
    return await found.promise;
  } finally {
    done.abort();
    await running;
  }
}

/**
 * The file at a container's `terminationMessagePath`. The kubelet copies its text into the status of the terminated
 * container. It mounts a new, empty file for each instance of a container (makeMounts in pkg/kubelet/kuberuntime), so a
 * unique text in it identifies one instance.
 */
export class TerminationMessageFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Appends a line.
   *
   * @throws Error if the file does not exist. It is not created, because the kubelet would not read one in the
   *   container's own file system.
   */
  async appendLine(line: string): Promise<void> {
    const file = await open(this.#path, constants.O_WRONLY | constants.O_APPEND);
    try {
      await file.write(`${line}\n`);
    } finally {
      await file.close();
    }
  }

  /** @throws Error if the file cannot be read. */
  async includes(text: string): Promise<boolean> {
    return (await readFile(this.#path, 'utf8')).includes(text);
  }
}

const podsForbidden = 'not allowed to read pods: the crash of a leader is noticed only when its lease expires';

/**
 * A logger for pod watches that does not repeat a missing permission: it logs the first 403 as a warning and later ones
 * at debug level. It passes other lines unchanged.
 */
export function logForbiddenOnce(log: Logger): Logger {
  let isLogged = false;
  const logForbidden = (err: unknown): void => {
    if (isLogged) log.debug({ err }, podsForbidden);
    else log.warn({ err }, podsForbidden);
    isLogged = true;
  };
  const wrap = (inner: Logger): Logger => ({
    debug: (details, message) => inner.debug(details, message),
    info: (details, message) => inner.info(details, message),
    warn: (details, message) => {
      if ('err' in details && isForbidden(details.err)) logForbidden(details.err);
      else inner.warn(details, message);
    },
    error: (details, message) => inner.error(details, message),
    child: (bindings) => wrap(inner.child(bindings)),
  });
  return wrap(log);
}
