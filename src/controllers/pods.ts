import type { InformerOptions } from '../runtime/cache/index.ts';
import type { Predicate } from '../runtime/index.ts';
import type { Pod } from './built-in-kinds.ts';
import { type ControllerSettings, scopeOf } from './controller-settings.ts';

type PodStatus = NonNullable<Pod['status']>;
type PodCondition = NonNullable<PodStatus['conditions']>[number];
type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number];
type ContainerState = NonNullable<ContainerStatus['state']>;
type Terminated = NonNullable<ContainerState['terminated']>;

/**
 * Why a pod does not start or does not stay up, in a sentence that names it: `pod shop-db-0: ImagePullBackOff: Back-off
 * pulling image "mongo:1"`. Undefined while nothing is known to be wrong: it is ready, is starting, has succeeded, or is being
 * deleted.
 *
 * What a container wrote as its termination message is left out: it may hold a secret, and more people can read the status
 * of the owner than the pod.
 */
export function podProblem(pod: Pod): string | undefined {
  const problem = problemOf(pod);
  return problem === undefined ? undefined : `pod ${pod.metadata.name}: ${problem.replaceAll(/\s+/g, ' ').trim()}`;
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

/** Passes a change of what {@link podProblem} says, whichever way. */
export const podProblemChanged: Predicate<Pod> = (delta) =>
  podProblem(delta.object) !== (delta.type === 'modified' ? podProblem(delta.previous) : undefined);

function problemOf(pod: Pod): string | undefined {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined || status?.phase === 'Succeeded' || isReady(pod)) return undefined;
  // Evicted, or refused by the kubelet of its node.
  if (status?.phase === 'Failed' && status.reason !== undefined) return withDetail(status.reason, status.message);
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status === 'False') {
    // The scheduler's Event, which users search for, calls it so.
    const reason = scheduled.reason === 'Unschedulable' ? 'FailedScheduling' : scheduled.reason;
    return withDetail(reason ?? 'FailedScheduling', scheduled.message);
  }
  for (const container of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
    const problem = containerProblem(container);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** The kubelet's reasons for a container that is on its way. */
const starting: readonly (string | undefined)[] = ['ContainerCreating', 'PodInitializing', undefined];

function containerProblem({ ready, state = {}, lastState }: ContainerStatus): string | undefined {
  if (ready) return undefined;
  const { waiting } = state;
  // Its message holds the pause, which changes each time. Why the container ended says more.
  const isRestarting = waiting?.reason === 'CrashLoopBackOff';
  if (waiting?.reason !== undefined && !isRestarting && !starting.includes(waiting.reason)) {
    return withDetail(waiting.reason, waiting.message);
  }
  const ended = [state.terminated, lastState?.terminated].find((each) => each !== undefined && each.exitCode !== 0);
  if (ended !== undefined) return endOf(ended);
  return isRestarting ? waiting?.reason : undefined;
}

/** Reasons for the end of a process that ran: their message is the container's own. */
const ownWords: readonly (string | undefined)[] = ['Error', 'OOMKilled', 'Completed', undefined];

function endOf({ reason, exitCode, message }: Terminated): string {
  const end = `${reason ?? 'Error'} (exit code ${exitCode})`;
  return ownWords.includes(reason) ? end : withDetail(end, message);
}

const withDetail = (reason: string, detail: string | undefined): string => (detail ? `${reason}: ${detail}` : reason);

/** The condition `Ready` of a pod. */
export const readyCondition = ({ status }: Pod): PodCondition | undefined =>
  status?.conditions?.find(({ type }) => type === 'Ready');

/** Whether a pod is ready. */
export const isReady = (pod: Pod): boolean => readyCondition(pod)?.status === 'True';

/** How dear a pod is when some are to be deleted: the cheaper goes first (KEP-2255). */
export const deletionCostAnnotation = 'controller.kubernetes.io/pod-deletion-cost';

/**
 * The options of the informer of pods, the same for each controller: they share the informer. The cache holds every pod in
 * scope, most of which belong to others, so it keeps only what the controllers read.
 */
export const podInformer = (settings: Pick<ControllerSettings, 'namespaces'>): InformerOptions<Pod> => ({
  ...scopeOf(settings),
  transform: withoutDetails,
});

/** A pod with what the controllers read: whose it is, how far it is, and what {@link podProblem} says. */
export function withoutDetails(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  const cost = metadata.annotations?.[deletionCostAnnotation];
  const isTroubled = podProblem(pod) !== undefined;
  const conditions = status?.conditions?.filter(
    ({ type, status: is }) => type === 'Ready' || (type === 'PodScheduled' && is === 'False'),
  );
  return {
    ...pod,
    metadata: { ...metadata, annotations: cost === undefined ? {} : { [deletionCostAnnotation]: cost } },
    spec: { containers: [], ...(spec?.nodeName !== undefined && { nodeName: spec.nodeName }) },
    status: {
      ...(status?.phase !== undefined && { phase: status.phase }),
      ...(conditions && { conditions }),
      ...(status?.containerStatuses && { containerStatuses: status.containerStatuses.map(brief) }),
      ...(isTroubled && {
        ...(status?.reason !== undefined && { reason: status.reason }),
        ...(status?.message !== undefined && { message: status.message }),
        ...(status?.initContainerStatuses && { initContainerStatuses: status.initContainerStatuses.map(troubled) }),
        ...(status?.containerStatuses && { containerStatuses: status.containerStatuses.map(troubled) }),
      }),
    },
  };
}

const brief = ({ name, restartCount, ready }: ContainerStatus): ContainerStatus => ({
  name,
  restartCount,
  ready,
  image: '',
  imageID: '',
});

const troubled = (container: ContainerStatus): ContainerStatus => ({
  ...brief(container),
  ...(container.state && { state: container.state }),
  ...(container.lastState && { lastState: container.lastState }),
});
