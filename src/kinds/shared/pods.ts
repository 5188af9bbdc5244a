import { cutText } from '../../runtime/client/index.ts';
import type { Predicate } from '../../runtime/index.ts';
import type { Pod } from '../../runtime/kinds/index.ts';
import { identityOf } from './cached-fields.ts';

type PodStatus = NonNullable<Pod['status']>;
type PodCondition = NonNullable<PodStatus['conditions']>[number];
type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number];
type ContainerState = NonNullable<ContainerStatus['state']>;
type Terminated = NonNullable<ContainerState['terminated']>;

/**
 * Why a pod does not start, stay up or terminate: `pod shop-db-0: ImagePullBackOff: Back-off pulling image "mongo:1"`. Undefined
 * for a pod that is ready, is starting, has succeeded, or is being deleted and not overdue.
 *
 * Omits the termination message that a container wrote: it may contain a secret, and more people can read the status of the
 * owner than the pod.
 *
 * @param nowMs milliseconds since 1970.
 */
export function podProblem(pod: Pod, nowMs = Date.now()): string | undefined {
  const problem = problemOf(pod, nowMs);
  return problem === undefined
    ? undefined
    : `pod ${pod.metadata.name}: ${cutText(problem).replaceAll(/\s+/g, ' ').trim()}`;
}

/** The problem of the youngest pod that has one. */
export function problemAmong(pods: Iterable<Pod>): string | undefined {
  for (const pod of [...pods].sort(youngestFirst)) {
    const problem = podProblem(pod);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const youngestFirst = ({ metadata: one }: Pod, { metadata: other }: Pod): number =>
  Date.parse(other.creationTimestamp) - Date.parse(one.creationTimestamp) || (one.name < other.name ? -1 : 1);

/**
 * How long until the first of these pods is overdue, in milliseconds, for the requeue of its owner: no event tells that. Undefined if none
 * will be.
 *
 * @param nowMs milliseconds since 1970.
 */
export function untilOverdueMs(pods: Iterable<Pod>, nowMs = Date.now()): number | undefined {
  let next = Number.POSITIVE_INFINITY;
  for (const { metadata } of pods) {
    const { deletionTimestamp } = metadata;
    const delayMs = deletionTimestamp === undefined ? 0 : overdueAfterMs(deletionTimestamp) + 1 - nowMs;
    if (delayMs > 0) next = Math.min(next, delayMs);
  }
  return Number.isFinite(next) ? next : undefined;
}

/** True if {@link podProblem} has changed, or the pod begins or ends to terminate: see {@link untilOverdueMs}. */
export const affectsPodProblem: Predicate<Pod> = (delta) =>
  finalProblem(delta.object) !== (delta.type === 'modified' ? finalProblem(delta.previous) : undefined);

/** The problem if the pod never changes again. It does not depend on the clock, as the result of a predicate must not. */
const finalProblem = (pod: Pod): string | undefined => podProblem(pod, Number.POSITIVE_INFINITY);

/** True if the pod became ready or unready. A ready pod that is added or deleted counts too. */
export const affectsPodReadiness: Predicate<Pod> = (delta) =>
  isReady(delta.object) !== (delta.type === 'modified' && isReady(delta.previous));

/**
 * How long a pod may exist after its deletionTimestamp, which is the end of its grace period, in milliseconds. The clock of the
 * API server wrote that time.
 */
const terminationSlackMs = 60_000;

const overdueAfterMs = (deletionTimestamp: string): number => Date.parse(deletionTimestamp) + terminationSlackMs;

function problemOf(pod: Pod, nowMs: number): string | undefined {
  const { metadata, status } = pod;
  const { deletionTimestamp } = metadata;
  if (deletionTimestamp !== undefined) {
    return nowMs > overdueAfterMs(deletionTimestamp) ? `still terminating since ${deletionTimestamp}` : undefined;
  }
  if (status?.phase === 'Succeeded' || isReady(pod)) return undefined;
  // The pod was evicted, or the kubelet refused it.
  if (status?.phase === 'Failed' && status.reason !== undefined) return withDetail(status.reason, status.message);
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status === 'False') {
    // The Event of the scheduler has this reason, and users search for it.
    const reason = scheduled.reason === 'Unschedulable' ? 'FailedScheduling' : scheduled.reason;
    return withDetail(reason ?? 'FailedScheduling', scheduled.message);
  }
  for (const container of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
    const problem = containerProblem(container);
    if (problem !== undefined) return problem;
  }
  // The kubelet reports the containers and the readiness together. Without the kubelet, the node's controller reports the readiness.
  const isEachReady =
    status?.containerStatuses !== undefined &&
    [...(status.initContainerStatuses ?? []), ...status.containerStatuses].every(({ ready }) => ready);
  if (status?.phase !== 'Running' || !isEachReady) return undefined;
  return `its containers are ready, but the pod is not: node ${pod.spec?.nodeName} may be lost (kubectl describe node ${pod.spec?.nodeName}), or a readiness gate is not met`;
}

/** The kubelet's reasons for a container that is starting. */
const startingReasons: readonly (string | undefined)[] = ['ContainerCreating', 'PodInitializing', undefined];

/**
 * The kubelet alternates between ImagePullBackOff and the error of the last pull, and that error may differ each time
 * (k8s.io/kubernetes/pkg/kubelet/images/image_manager.go).
 */
const imagePullReasons: readonly (string | undefined)[] = [
  'ImagePullBackOff',
  'ErrImagePull',
  'RegistryUnavailable',
  'SignatureValidationFailed',
];

function containerProblem({ ready, image, state = {}, lastState }: ContainerStatus): string | undefined {
  if (ready) return undefined;
  const { waiting } = state;
  // One constant message: each new one would cost a status write.
  if (imagePullReasons.includes(waiting?.reason)) return `ImagePullBackOff: Back-off pulling image "${image}"`;
  // The message of CrashLoopBackOff contains the pause, which changes. The last termination says more.
  const isRestarting = waiting?.reason === 'CrashLoopBackOff';
  if (waiting?.reason !== undefined && !isRestarting && !startingReasons.includes(waiting.reason)) {
    return withDetail(waiting.reason, waiting.message);
  }
  const failure = [state.terminated, lastState?.terminated].find((each) => each !== undefined && each.exitCode !== 0);
  if (failure !== undefined) return describeTermination(failure);
  return isRestarting ? waiting?.reason : undefined;
}

/** The reasons of a process that ran: the message is the one that the container wrote. With other reasons the runtime wrote it. */
const containerMessageReasons: readonly (string | undefined)[] = ['Error', 'OOMKilled', 'Completed', undefined];

function describeTermination({ reason, exitCode, message }: Terminated): string {
  const summary = `${reason ?? 'Error'} (exit code ${exitCode})`;
  return containerMessageReasons.includes(reason) ? summary : withDetail(summary, message);
}

const withDetail = (reason: string, detail: string | undefined): string => (detail ? `${reason}: ${detail}` : reason);

/** Returns the condition `Ready` of a pod. */
export const readyCondition = ({ status }: Pod): PodCondition | undefined =>
  status?.conditions?.find(({ type }) => type === 'Ready');

export const isReady = (pod: Pod): boolean => readyCondition(pod)?.status === 'True';

/** The cost of deleting a pod: when a PodSet scales down, the pods with the lowest cost are deleted first (KEP-2255). */
export const deletionCostAnnotation = 'controller.kubernetes.io/pod-deletion-cost';

/** The label that contains a hash of the template that a PodSet created the pod from. */
export const templateHashLabel = 'app.example.com/template-hash';

/** Those by which a PodSet or a BookStore finds its pods, and the hash. */
const readLabels = [
  'app',
  'version',
  templateHashLabel,
  'app.kubernetes.io/name',
  'app.kubernetes.io/instance',
  'app.kubernetes.io/component',
];

/** Keeps only the fields that a controller reads: the identity, the readiness and the input of {@link podProblem}. */
export function keepReadFields(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  const cost = metadata.annotations?.[deletionCostAnnotation];
  const hasProblem = metadata.deletionTimestamp === undefined && podProblem(pod) !== undefined;
  const conditions = status?.conditions?.filter(
    ({ type, status: is }) => type === 'Ready' || (type === 'PodScheduled' && is === 'False'),
  );
  return {
    metadata: {
      ...identityOf(metadata, readLabels),
      ...(cost !== undefined && { annotations: { [deletionCostAnnotation]: cost } }),
    },
    spec: { containers: [], ...(spec?.nodeName !== undefined && { nodeName: spec.nodeName }) },
    status: {
      ...(status?.phase !== undefined && { phase: status.phase }),
      ...(conditions && { conditions }),
      ...(status?.initContainerStatuses && { initContainerStatuses: status.initContainerStatuses.map(withoutState) }),
      ...(status?.containerStatuses && { containerStatuses: status.containerStatuses.map(withoutState) }),
      ...(hasProblem && {
        ...(status && cutTexts(status)),
        ...(status?.initContainerStatuses && { initContainerStatuses: status.initContainerStatuses.map(withState) }),
        ...(status?.containerStatuses && { containerStatuses: status.containerStatuses.map(withState) }),
      }),
    },
  };
}

const withoutState = ({ name, restartCount, ready }: ContainerStatus): ContainerStatus => ({
  name,
  restartCount,
  ready,
  image: '',
  imageID: '',
});

const withState = (container: ContainerStatus): ContainerStatus => ({
  ...withoutState(container),
  image: cutText(container.image),
  ...(container.state && { state: cutState(container.state) }),
  ...(container.lastState && { lastState: cutState(container.lastState) }),
});

/** A message may contain a name of an image that is as long as a request may be. */
const cutState = ({ waiting, running, terminated }: ContainerState): ContainerState => ({
  ...(running && { running }),
  ...(waiting && { waiting: cutTexts(waiting) }),
  ...(terminated && { terminated: { ...cutTexts(terminated), exitCode: terminated.exitCode } }),
});

const cutTexts = ({ reason, message }: { readonly reason?: string; readonly message?: string }) => ({
  ...(reason !== undefined && { reason: cutText(reason) }),
  ...(message !== undefined && { message: cutText(message) }),
});
