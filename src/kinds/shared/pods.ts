import type { Predicate } from '@echoperator/runtime';
import { cutText } from '@echoperator/runtime/client';
import type { Pod } from '@echoperator/runtime/kinds';
import { identityOf } from './cached-fields.ts';

type PodStatus = NonNullable<Pod['status']>;
type PodCondition = NonNullable<PodStatus['conditions']>[number];
type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number];
type ContainerState = NonNullable<ContainerStatus['state']>;
type Terminated = NonNullable<ContainerState['terminated']>;

/**
 * Why a pod does not start, stay up or terminate: `pod shop-db-0: ImagePullBackOff: Back-off pulling image "mongo:1"`.
 * Undefined for a pod that is ready, has succeeded, or is starting or being deleted and not overdue.
 *
 * Omits the termination message that a container wrote: it may contain a secret, and more people can read the status of
 * the owner than the pod.
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
export const problemAmong = (pods: Iterable<Pod>): string | undefined => firstProblem(pods, (pod) => podProblem(pod));

/** The problem of the youngest pod that is overdue: see {@link untilOverdueMs}. */
export function overdueProblemAmong(pods: Iterable<Pod>, nowMs = Date.now()): string | undefined {
  const isOverdue = (pod: Pod): boolean => nowMs > (overdueOf(pod)?.afterMs ?? Number.POSITIVE_INFINITY);
  return firstProblem(pods, (pod) => (isOverdue(pod) ? podProblem(pod, nowMs) : undefined));
}

function firstProblem(pods: Iterable<Pod>, problemOf: (pod: Pod) => string | undefined): string | undefined {
  for (const pod of [...pods].sort(youngestFirst)) {
    const problem = problemOf(pod);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const youngestFirst = ({ metadata: one }: Pod, { metadata: other }: Pod): number =>
  Date.parse(other.creationTimestamp) - Date.parse(one.creationTimestamp) || (one.name < other.name ? -1 : 1);

/**
 * How long until the first of these pods should have started or ended, in milliseconds, for the requeue of its owner:
 * no event tells that. Undefined if none will be overdue.
 *
 * @param nowMs milliseconds since 1970.
 */
export function untilOverdueMs(pods: Iterable<Pod>, nowMs = Date.now()): number | undefined {
  let next = Number.POSITIVE_INFINITY;
  for (const pod of pods) {
    const overdue = overdueOf(pod);
    const delayMs = overdue === undefined ? 0 : overdue.afterMs + 1 - nowMs;
    if (delayMs > 0) next = Math.min(next, delayMs);
  }
  return Number.isFinite(next) ? next : undefined;
}

/** True if {@link podProblem} has changed, or the pod begins or ends to terminate: see {@link untilOverdueMs}. */
export const affectsPodProblem: Predicate<Pod> = (delta) =>
  finalProblem(delta.object) !== (delta.type === 'modified' ? finalProblem(delta.previous) : undefined);

/**
 * The problem if the pod never changes again. It does not depend on the clock, as the result of a predicate must not.
 */
const finalProblem = (pod: Pod): string | undefined => podProblem(pod, Number.POSITIVE_INFINITY);

/** True if the pod became ready or unready. A ready pod that is added or deleted counts too. */
export const affectsPodReadiness: Predicate<Pod> = (delta) =>
  isReady(delta.object) !== (delta.type === 'modified' && isReady(delta.previous));

/**
 * How long a pod may exist after its deletionTimestamp, which is the end of its grace period, in milliseconds. The
 * clock of the API server wrote that time.
 */
const terminationSlackMs = 60_000;

/**
 * How long the other containers of a pod may run after one has ended, in milliseconds. A sidecar that notices the end
 * needs some seconds. The clock of the node wrote the time of the end, and may be behind.
 */
const sidecarSlackMs = 60_000;

/**
 * How long a pod may be `Pending` without a cause in its status, in milliseconds. Only Events tell that a volume cannot
 * be mounted, or that the scheduler does not exist.
 */
const startSlackMs = 60_000;

/** A pod that should have ended, or started. */
interface Overdue {
  /** When it should have, in milliseconds since 1970. */
  readonly afterMs: number;
  readonly problem: string;
}

function overdueOf({ metadata, spec, status }: Pod): Overdue | undefined {
  const { name, namespace = '', creationTimestamp, deletionTimestamp } = metadata;
  if (deletionTimestamp !== undefined) {
    const problem = `still terminating since ${deletionTimestamp}`;
    return { afterMs: Date.parse(deletionTimestamp) + terminationSlackMs, problem };
  }
  // The pods of Jobs are the others: their owners are not enqueued when such a pod starts after all.
  if (spec?.restartPolicy !== 'Never') {
    // A container that has ended is started again.
    if (status?.phase !== 'Pending') return undefined;
    const problem = `not started since ${creationTimestamp} (kubectl --namespace ${namespace} describe pod ${name})`;
    return { afterMs: Date.parse(creationTimestamp) + startSlackMs, problem };
  }
  if (status?.phase !== 'Running') return undefined;
  const containers = status.containerStatuses ?? [];
  const ended = containers.find(({ state }) => state?.terminated !== undefined);
  const running = containers.filter(({ state }) => state?.running !== undefined).map(({ name }) => name);
  const { exitCode = 0, finishedAt } = ended?.state?.terminated ?? {};
  if (ended === undefined || running.length === 0) return undefined;
  const end = exitCode === 0 ? 'has completed' : `has failed (exit code ${exitCode})`;
  const others =
    running.length === 1
      ? `container ${running[0]} still runs`
      : `${running.length} others still run, among them ${running[0]}`;
  const problem = `container ${ended.name} ${end}, but ${others}, so the pod does not end`;
  return { afterMs: (finishedAt === undefined ? 0 : Date.parse(finishedAt)) + sidecarSlackMs, problem };
}

function problemOf(pod: Pod, nowMs: number): string | undefined {
  const { metadata, status } = pod;
  const overdue = overdueOf(pod);
  const late = overdue !== undefined && nowMs > overdue.afterMs ? overdue.problem : undefined;
  // What the status says about a pod that has not started says more.
  if (metadata.deletionTimestamp !== undefined || (late !== undefined && status?.phase !== 'Pending')) return late;
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
  // The kubelet reports the containers and the readiness together. Without the kubelet, the node's controller reports
  // the readiness.
  const isEachReady =
    status?.containerStatuses !== undefined &&
    [...(status.initContainerStatuses ?? []), ...status.containerStatuses].every(({ ready }) => ready);
  if (status?.phase !== 'Running' || !isEachReady) return late;
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

/**
 * The reasons of a process that ran: the message is the one that the container wrote. With other reasons the runtime
 * wrote it.
 */
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

/**
 * The cost of deleting a pod: when a PodSet scales down, the pods with the lowest cost are deleted first (KEP-2255).
 */
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
  const hasProblem = metadata.deletionTimestamp === undefined && finalProblem(pod) !== undefined;
  const conditions = status?.conditions?.filter(
    ({ type, status: is }) => type === 'Ready' || (type === 'PodScheduled' && is === 'False'),
  );
  return {
    metadata: {
      ...identityOf(metadata, readLabels),
      ...(cost !== undefined && { annotations: { [deletionCostAnnotation]: cost } }),
    },
    spec: {
      containers: [],
      ...(spec?.nodeName !== undefined && { nodeName: spec.nodeName }),
      ...(spec?.restartPolicy === 'Never' && { restartPolicy: spec.restartPolicy }),
    },
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
  ...(terminated && { terminated: cutTerminated(terminated) }),
});

const cutTerminated = (terminated: Terminated): Terminated => ({
  ...cutTexts(terminated),
  exitCode: terminated.exitCode,
  ...(terminated.finishedAt !== undefined && { finishedAt: terminated.finishedAt }),
});

const cutTexts = ({ reason, message }: { readonly reason?: string; readonly message?: string }) => ({
  ...(reason !== undefined && { reason: cutText(reason) }),
  ...(message !== undefined && { message: cutText(message) }),
});
