import { randomUUID } from 'node:crypto';
import { Reflector } from '../cache/reflector.ts';
import type { Client } from '../client/index.ts';
import type { ObjectKey } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import { hasEnded, hasEndedBefore } from './container-end.ts';
import { firstProcessStartedAtMs } from './first-process.ts';
import type { HolderContainer, HolderContainers } from './holder-container.ts';
import { containerOfPod, Pod, statusOfContainer } from './pod.ts';
import { withoutRefusals } from './refusal-log.ts';
import { TerminationLog } from './termination-log.ts';

/** Which container this process runs in; the downward API knows. */
export interface PodContainersOptions {
  /** How pods are read; it needs list and watch in the namespace, and no gate. */
  readonly client: Pick<Client, 'list' | 'watchBatches'>;
  readonly namespace: string;
  readonly podName: string;
  readonly podUid: string;
  readonly containerName: string;
  readonly log: Logger;
  /**
   * When this container's first process was made, in milliseconds since 1970 by the node's wall clock. Default: as /proc
   * tells it, when this object is made.
   */
  readonly startedAtMs?: number;
}

/** What a pod's own container finds in the pod. */
type Own =
  | { readonly type: 'running'; readonly containerId: string; readonly terminationMessagePath: string }
  | { readonly type: 'never'; readonly why: string };

const withoutProof = 'a crash of this leader will be noticed only when its lease expires';
const podsRefused = 'pods may not be read: the crash of a leader is noticed only when its lease expires';

/**
 * Containers by the status of their pods, which the kubelet writes: how the end of a leader is known before its Lease has
 * expired.
 *
 * - Proof is a `terminated` state, present or last, of the pod with the uid, of the container with the name, with the ID and
 *   the termination message of the instance that the leader said it runs in, and with a reason and an exit code that
 *   somebody has seen. Nothing else is: no pod that is gone, no phase, no lost node.
 * - An instance that was restarted knows its predecessors, by pod uid and name, to have ended.
 *
 * It assumes that the kubelet and the container runtime tell the truth of what has ended, and that nobody but the kubelet
 * writes the status of pods. Where pods may not be read it says so once, and proves nothing.
 */
export class PodContainers implements HolderContainers {
  readonly #options: PodContainersOptions;
  readonly #log: Logger;
  /** What is to be known of it, or why it is not. */
  readonly #startedAt: { readonly ms: number } | { readonly error: unknown };
  #saidRefused = false;

  constructor(options: PodContainersOptions) {
    this.#options = options;
    this.#startedAt = startedAt(options.startedAtMs);
    this.#log = withoutRefusals(options.log, (error) => this.#refused(error));
  }

  /**
   * The container of this process, once the status of its pod shows it running. Never, and a line in the log says why, where
   * the end of its first process does not end all others, or where it cannot leave a termination message.
   *
   * Asked again, it has another token: both are in the message then.
   *
   * @throws the signal's reason.
   */
  async own(signal: AbortSignal): Promise<HolderContainer | undefined> {
    const { namespace, podName, podUid, containerName, log } = this.#options;
    const own = await this.#when(this.#options, (pod) => this.#findOwn(pod), signal);
    if (own.type === 'never') {
      log.info({ why: own.why }, withoutProof);
      return undefined;
    }
    const terminationToken = randomUUID();
    try {
      await new TerminationLog(own.terminationMessagePath).add(`leader election: ${terminationToken}`);
    } catch (error) {
      log.warn({ err: error }, withoutProof);
      return undefined;
    }
    return { namespace, podName, podUid, containerName, containerId: own.containerId, terminationToken };
  }

  /**
   * Resolves when the status of its pod proves that this container has ended. Until then it watches that one pod.
   *
   * @throws the signal's reason.
   */
  async ended(container: HolderContainer, signal: AbortSignal): Promise<void> {
    const isEarlier = this.#isOfThisName(container) && (await this.#isEarlier(container, signal));
    const proves = isEarlier ? hasEndedBefore : hasEnded;
    const pod = { namespace: container.namespace, podName: container.podName };
    await this.#when(pod, (seen) => proves(seen, container) || undefined, signal);
  }

  #isOfThisName({ podUid, containerName }: HolderContainer): boolean {
    return podUid === this.#options.podUid && containerName === this.#options.containerName;
  }

  /**
   * Whether it is an earlier instance of this process's own container. The instance is the same where another process holds
   * the Lease in this one, by `kubectl exec` say, and then what it has written is in our termination message.
   */
  async #isEarlier(container: HolderContainer, signal: AbortSignal): Promise<boolean> {
    const { podUid, containerName } = this.#options;
    const find = (pod: Pod) => (pod.metadata.uid === podUid ? containerOfPod(pod, containerName) : undefined);
    const { terminationMessagePath = '' } = await this.#when(this.#options, find, signal);
    try {
      return !(await new TerminationLog(terminationMessagePath).holds(container.terminationToken));
    } catch (error) {
      this.#options.log.debug({ err: error }, 'whether this container was restarted cannot be told');
      return false;
    }
  }

  #findOwn(pod: Pod): Own | undefined {
    const { podUid, containerName } = this.#options;
    const { metadata, spec } = pod;
    // Of a static pod the API server has a mirror, whose uid is another than the one that the kubelet gave the pod.
    const isMirror = metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined;
    if (isMirror) return { type: 'never', why: 'this is a static pod, whose uid the API server does not have' };
    if (metadata.uid !== podUid) return undefined;
    if (spec?.shareProcessNamespace || spec?.hostPID) {
      const why = `the pod's containers share a PID namespace (${spec.hostPID ? 'hostPID' : 'shareProcessNamespace'})`;
      return { type: 'never', why };
    }
    const { terminationMessagePath } = containerOfPod(pod, containerName) ?? {};
    if (!terminationMessagePath) return { type: 'never', why: `the pod has no container ${containerName}` };
    if ('error' in this.#startedAt) return { type: 'never', why: String(this.#startedAt.error) };
    const containerId = this.#runningSince(pod, this.#startedAt.ms);
    return containerId === undefined ? undefined : { type: 'running', containerId, terminationMessagePath };
  }

  /** The ID of our container if it is the one that the status shows. It may still show one before it. */
  #runningSince(pod: Pod, startedAtMs: number): string | undefined {
    const { state, containerID } = statusOfContainer(pod, this.#options.containerName) ?? {};
    // The API's times have whole seconds, cut off.
    const isOurs = Date.parse(state?.running?.startedAt ?? '') >= Math.floor(startedAtMs / 1000) * 1000;
    return isOurs && containerID ? containerID : undefined;
  }

  /** Resolves with what is found in a pod, as soon as it is: watches it until then. */
  async #when<T>(
    { namespace, podName }: { readonly namespace: string; readonly podName: string },
    find: (pod: Pod) => T | undefined,
    signal: AbortSignal,
  ): Promise<T> {
    const found = Promise.withResolvers<T>();
    const done = new AbortController();
    const look = (pod: Pod): void => {
      const value = find(pod);
      if (value !== undefined) found.resolve(value);
    };
    const running = this.#watch({ namespace, name: podName }, look, AbortSignal.any([signal, done.signal]));
    try {
      await Promise.race([found.promise, running]);
      signal.throwIfAborted();
      return await found.promise;
    } finally {
      done.abort();
      await running;
    }
  }

  #watch({ namespace, name }: Required<ObjectKey>, look: (pod: Pod) => void, signal: AbortSignal): Promise<void> {
    const reflector = new Reflector<Pod>({
      client: this.#options.client,
      kind: Pod,
      selection: { namespace, fieldSelector: `metadata.name=${name}` },
      target: {
        prepare: (pod) => pod,
        replace: (pods) => pods.forEach(look),
        apply: (events) => {
          for (const event of events) if (event.type !== 'BOOKMARK') look(event.object);
        },
      },
      log: this.#log,
      listing: 'paged',
      backoff: { initialMs: 100, maxMs: 30_000 },
    });
    return reflector.run(signal);
  }

  /** It is tried again all the same, as seldom as any other failure: the permission may only be late. */
  #refused(error: unknown): void {
    const { log } = this.#options;
    if (this.#saidRefused) log.debug({ err: error }, podsRefused);
    else log.warn({ err: error }, podsRefused);
    this.#saidRefused = true;
  }
}

function startedAt(ms: number | undefined): { readonly ms: number } | { readonly error: unknown } {
  try {
    return { ms: ms ?? firstProcessStartedAtMs() };
  } catch (error) {
    return { error };
  }
}
