import type { PodSet } from '../../api/index.ts';
import { setCondition } from '../../runtime/index.ts';
import type { Pod } from '../built-in-kinds.ts';
import type { ReadyReport } from '../report-ready.ts';
import { isReady, isUpdated, selectorOf, templateHash } from './pod-set-pod.ts';

/** What a reconcile has left a PodSet with. */
export interface Outcome {
  /** Its pods that have not ended. */
  readonly active: readonly Pod[];
  /** Why a pod could not be made. */
  readonly refusal?: string | undefined;
}

/** What is to be reported; others' conditions stay. */
export function readyReport(set: PodSet, outcome: Outcome, now: Date): ReadyReport<PodSet> {
  const { generation } = set.metadata;
  const { active } = outcome;
  const hash = templateHash(set);
  const counts = {
    replicas: active.length,
    readyReplicas: active.filter(isReady).length,
    updatedReplicas: active.filter((pod) => isUpdated(pod, hash)).length,
  };
  const { reason, message, ready, isWarning } = sumUp(set.spec.replicas, counts, outcome.refusal);
  return {
    reason,
    message,
    isWarning,
    status: {
      ...counts,
      podNames: active.map(({ metadata }) => metadata.name).sort(),
      selector: selectorOf(set),
      observedGeneration: generation,
      conditions: setCondition(
        set.status?.conditions,
        { type: 'Ready', status: ready ? 'True' : 'False', reason, message, observedGeneration: generation },
        now,
      ),
    },
  };
}

interface Counts {
  readonly replicas: number;
  readonly readyReplicas: number;
  readonly updatedReplicas: number;
}

function sumUp(
  desired: number,
  { replicas, readyReplicas, updatedReplicas }: Counts,
  refusal: string | undefined,
): { readonly reason: string; readonly message: string; readonly ready: boolean; readonly isWarning: boolean } {
  if (refusal !== undefined) return { reason: 'PodRefused', message: refusal, ready: false, isWarning: true };
  const rest = { ready: false, isWarning: false };
  if (replicas > desired) {
    return { ...rest, reason: 'ScalingDown', message: `${replicas} pods are there, ${desired} are wanted` };
  }
  if (updatedReplicas < replicas) {
    return {
      ...rest,
      reason: 'RollingOut',
      message: `${updatedReplicas} of ${desired} pods are of the present template`,
    };
  }
  if (readyReplicas < desired) {
    return { ...rest, reason: 'PodsNotReady', message: `${readyReplicas} of ${desired} pods are ready` };
  }
  return { reason: 'PodsReady', message: `${desired} of ${desired} pods are ready`, ready: true, isWarning: false };
}
