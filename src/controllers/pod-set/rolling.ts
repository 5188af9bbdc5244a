import type { Pod } from '../built-in-kinds.ts';
import { isOutdated, isReady } from './pod-set-pod.ts';

/**
 * The pod to replace next: of an earlier template, and only when every pod that is not is ready. So at most one is missing
 * because of a roll, whatever the new template is worth, as with a Deployment of maxUnavailable 1 and no surge
 * (k8s.io/kubernetes/pkg/controller/deployment/rolling.go).
 *
 * @param active in the order of removal: one that is not ready, and serves nobody, comes before those that are.
 */
export function nextToReplace(active: readonly Pod[], hash: string): Pod | undefined {
  if (active.some((pod) => !isOutdated(pod, hash) && !isReady(pod))) return undefined;
  return active.find((pod) => isOutdated(pod, hash));
}
