import type { Pod } from '../../runtime/kinds/index.ts';
import { deletionCostAnnotation, isReady, readyCondition } from '../pods.ts';
import { isOutdated, isUpdated } from './pod.ts';

const phaseOrder: Readonly<Record<string, number>> = { Pending: 0, Unknown: 1, Running: 2 };

/**
 * The pods in the order in which a ReplicaSet would remove them (ActivePodsWithRanks in
 * k8s.io/kubernetes/pkg/controller): those without a node first, then the pending, the unready, the cheap by their
 * annotation, those with most siblings on their node, the lately ready, those that restarted most, the young.
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

/** Lower is removed earlier; a later number decides where those before it are equal. */
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
    // The longer ago, the later it goes: unknown counts as just now.
    ready && readySince ? ageRank(readySince) : -Number.MAX_SAFE_INTEGER,
    -restarts,
    ageRank(pod.metadata.creationTimestamp),
  ];
}

const ageRank = (time: string): number => -Date.parse(time);

/** A cost that is no number counts as 0, as in a ReplicaSet. */
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
 * The pod to replace next: of an earlier template, and only while every pod that is not of an earlier template is ready. So a
 * roll takes at most one pod away, however broken the new template is, like a Deployment with maxUnavailable 1 and no surge
 * (k8s.io/kubernetes/pkg/controller/deployment/rolling.go).
 *
 * @param active in the order of removal: a pod that is not ready comes before those that are.
 */
export function nextToReplace(active: readonly Pod[], hash: string): Pod | undefined {
  if (active.some((pod) => !isOutdated(pod, hash) && !isReady(pod))) return undefined;
  return active.find((pod) => isOutdated(pod, hash));
}

/** How many ended pods a PodSet keeps, so that their logs can be read. */
const keptEnded = 5;

/** The ended pods that are not kept. */
export const surplusEnded = (pods: readonly Pod[]): readonly Pod[] => endedYoungestFirst(pods).slice(keptEnded);

/** A pod that was ready for longer than this after its creation did not end early. The kubelet uses the same time. */
const earlyMs = 600_000;

/** The pause before the next pod is made, by how many pods in a row ended early. As the kubelet, up to five minutes. */
const pausesMs = [0, 10_000, 40_000, 160_000, 300_000];

/** A series of pods that ended early, one after the other. */
export interface EarlyEnds {
  readonly count: number;
  readonly youngest: Pod;
  /** How long no pod is made after the youngest ended. */
  readonly pauseMs: number;
}

/** The last pods of the template that ended, as far as all of them ended early. Undefined if there is none. */
export function earlyEnds(pods: readonly Pod[], hash: string): EarlyEnds | undefined {
  const ended = endedYoungestFirst(pods);
  const other = ended.findIndex((pod) => !isUpdated(pod, hash) || !endedEarly(pod));
  const count = Math.min(other === -1 ? ended.length : other, pausesMs.length);
  const [youngest] = ended;
  const pauseMs = pausesMs[count - 1];
  return youngest === undefined || pauseMs === undefined ? undefined : { count, youngest, pauseMs };
}

/** When a pod was last ready; of one that never was, when it was created or began to start. */
export const lastReadyAt = (pod: Pod): number =>
  Date.parse(readyCondition(pod)?.lastTransitionTime ?? '') || createdAt(pod);

const endedEarly = (pod: Pod): boolean => !isReady(pod) && lastReadyAt(pod) - createdAt(pod) < earlyMs;

const endedYoungestFirst = (pods: readonly Pod[]): readonly Pod[] =>
  pods.filter(hasEnded).sort((one, other) => createdAt(other) - createdAt(one));

const hasEnded = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && (status?.phase === 'Succeeded' || status?.phase === 'Failed');

const createdAt = ({ metadata }: Pod): number => Date.parse(metadata.creationTimestamp);
