import type { Pod } from '@echoperator/runtime/kinds';
import { deletionCostAnnotation, isReady, readyCondition } from '../shared/pods.ts';
import { isOutdated, isUpdated } from './pod.ts';

const phaseOrder: Readonly<Record<string, number>> = { Pending: 0, Unknown: 1, Running: 2 };

/**
 * The pods in the order in which a ReplicaSet would delete them (ActivePodsWithRanks in
 * k8s.io/kubernetes/pkg/controller). The criteria, in this order: no node, pending, not ready, low deletion cost, many
 * pods of the PodSet on the node, ready for a short time, many restarts, young.
 */
export function inOrderOfRemoval(pods: readonly Pod[]): readonly Pod[] {
  const siblings = new Map<string, number>();
  for (const { spec } of pods) {
    const node = spec?.nodeName ?? '';
    siblings.set(node, (siblings.get(node) ?? 0) + 1);
  }
  const ranks = new Map(pods.map((pod) => [pod, rankOf(pod, siblings.get(pod.spec?.nodeName ?? '') ?? 0)]));
  return [...pods].sort((one, other) => compare(ranks.get(one) ?? [], ranks.get(other) ?? []));
}

/** A pod with lower numbers is deleted earlier. A number counts only if all before it are equal. */
function rankOf(pod: Pod, siblings: number): readonly number[] {
  const ready = isReady(pod);
  const readySince = readyCondition(pod)?.lastTransitionTime;
  const restarts = Math.max(0, ...(pod.status?.containerStatuses ?? []).map(({ restartCount }) => restartCount));
  return [
    pod.spec?.nodeName ? 1 : 0,
    phaseOrder[pod.status?.phase ?? 'Pending'] ?? 0,
    ready ? 1 : 0,
    deletionCost(pod),
    -siblings,
    // A pod that has been ready for longer is deleted later. An unknown time counts as now.
    ready && readySince ? ageRank(readySince) : -Number.MAX_SAFE_INTEGER,
    -restarts,
    ageRank(pod.metadata.creationTimestamp),
  ];
}

const ageRank = (time: string): number => -Date.parse(time);

/** A cost that is not an integer counts as 0, as in a ReplicaSet. */
function deletionCost({ metadata }: Pod): number {
  const cost = metadata.annotations?.[deletionCostAnnotation] ?? '0';
  return /^[-+]?\d+$/.test(cost) ? Number(cost) : 0;
}

function compare(one: readonly number[], other: readonly number[]): number {
  for (const [index, value] of one.entries()) {
    const difference = value - (other[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * The pod of an earlier template to replace next. Undefined while a pod of the current template is not ready. So a
 * broken new template costs at most one pod, as in a Deployment with maxUnavailable 1 and no surge
 * (k8s.io/kubernetes/pkg/controller/deployment/rolling.go).
 *
 * @param active the pods in the order in which to try them.
 */
export function nextToReplace(active: readonly Pod[], hash: string): Pod | undefined {
  if (active.some((pod) => !isOutdated(pod, hash) && !isReady(pod))) return undefined;
  return active.find((pod) => isOutdated(pod, hash));
}

/** How many ended pods a PodSet keeps for their logs. */
const keptEnded = 5;

/** The ended pods to delete: all but the youngest ones that are kept. */
export const surplusEnded = (pods: readonly Pod[]): readonly Pod[] => endedYoungestFirst(pods).slice(keptEnded);

/**
 * A pod that was ready later than this after its creation did not end early. The kubelet resets its back-off after the
 * same time.
 */
const earlyMs = 600_000;

/**
 * The pause before the next creation, by the number of pods in a row that ended early. Up to five minutes, like the
 * kubelet's.
 */
const pausesMs = [0, 10_000, 40_000, 160_000, 300_000];

/** Pods in a row that ended early. */
export interface EarlyEnds {
  readonly count: number;
  readonly youngest: Pod;
  /** How long to wait with the next creation after the youngest pod ended. */
  readonly pauseMs: number;
}

/**
 * The youngest ended pods, up to the first that did not end early or is of another template. Undefined if there are
 * none.
 */
export function earlyEnds(pods: readonly Pod[], hash: string): EarlyEnds | undefined {
  const ended = endedYoungestFirst(pods);
  const other = ended.findIndex((pod) => !isUpdated(pod, hash) || !endedEarly(pod));
  const count = Math.min(other === -1 ? ended.length : other, pausesMs.length);
  const [youngest] = ended;
  const pauseMs = pausesMs[count - 1];
  return youngest === undefined || pauseMs === undefined ? undefined : { count, youngest, pauseMs };
}

/** When the readiness of a pod last changed. For a pod that was never ready: when it was created or started. */
export const lastReadyAt = (pod: Pod): number =>
  Date.parse(readyCondition(pod)?.lastTransitionTime ?? '') || createdAt(pod);

const endedEarly = (pod: Pod): boolean => !isReady(pod) && lastReadyAt(pod) - createdAt(pod) < earlyMs;

const endedYoungestFirst = (pods: readonly Pod[]): readonly Pod[] =>
  pods.filter(hasEnded).sort((one, other) => createdAt(other) - createdAt(one));

const hasEnded = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && (status?.phase === 'Succeeded' || status?.phase === 'Failed');

const createdAt = ({ metadata }: Pod): number => Date.parse(metadata.creationTimestamp);
