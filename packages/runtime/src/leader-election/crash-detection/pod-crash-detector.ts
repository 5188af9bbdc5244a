import type { Client } from '../../client/client.ts';
import type { Pod } from '../../kinds/built-in-kinds.ts';
import type { Logger } from '../../shared/logger.ts';
import { type ContainerInstance, formatDescription, parseDescription } from './container-instance.ts';
import type { CrashDetector } from './crash-detector.ts';
import { logForbiddenOnce } from './log-forbidden-once.ts';
import { findOwnContainer, readStartTime, type StartTime } from './own-container.ts';
import { findContainer } from './pod.ts';
import { TerminationMessageFile } from './termination-message-file.ts';
import { provesEarlierTermination, provesTermination } from './termination-proof.ts';
import { waitForPod } from './wait-for-pod.ts';

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
 * - A `terminated` state, current or last, is proof if it has the published pod uid, container name and container ID. Its message must
 *   contain the published token, and the container runtime must have observed its reason and exit code.
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
   * Describes this process's container as soon as the status of its pod shows it running. Undefined if the container's end would not prove
   * the end of all its processes, or if it has no termination message file. A log line then says why.
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

  /** Whether it is this process's own container, though perhaps another instance of it. */
  #isOwnContainer({ podUid, containerName }: ContainerInstance): boolean {
    return podUid === this.#options.podUid && containerName === this.#options.containerName;
  }

  /**
   * Whether it is an earlier instance of our own container. It is our own instance if another process in it holds the
   * Lease, started by `kubectl exec` for example; then that process's token is in our termination message.
   */
  async #isEarlierInstance(container: ContainerInstance, signal: AbortSignal): Promise<boolean> {
    const { podUid, containerName, log } = this.#options;
    const find = (pod: Pod) => (pod.metadata.uid === podUid ? findContainer(pod, containerName) : undefined);
    const { terminationMessagePath = '' } = await this.#waitForPod(this.#options, find, signal);
    try {
      return !(await new TerminationMessageFile(terminationMessagePath).includes(container.terminationToken));
    } catch (error) {
      log.debug({ err: error }, 'cannot tell whether this container was restarted');
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
