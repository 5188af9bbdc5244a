import type { Pod } from '../built-in-kinds.ts';
import { deletionCostAnnotation, isReady } from './pod-set-pod.ts';

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
  const readySince = pod.status?.conditions?.find(({ type }) => type === 'Ready')?.lastTransitionTime;
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

/** What is no number costs nothing, as there. */
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
