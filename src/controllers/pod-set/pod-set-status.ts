import type { PodSet } from '../../api/index.ts';
import { type Condition, setCondition } from '../../runtime/index.ts';
import type { Pod } from '../built-in-kinds.ts';
import type { ReadyReport } from '../report-ready.ts';
import type { Hindrance } from './pod-refusal.ts';
import { isOutdated, isReady, isUpdated, selectorOf, templateHash } from './pod-set-pod.ts';

/** Why `Ready` is what it is: its reasons, each with its status, and whether a person should look at it. */
export const reasons = {
  PodsReady: { ready: 'True', isWarning: false },
  PodsNotReady: { ready: 'False', isWarning: false },
  RollingOut: { ready: 'False', isWarning: false },
  ScalingDown: { ready: 'False', isWarning: false },
  PodsEndEarly: { ready: 'False', isWarning: true },
  PodRefused: { ready: 'False', isWarning: true },
  InvalidTemplate: { ready: 'False', isWarning: true },
  RemovalRefused: { ready: 'False', isWarning: true },
  AdoptionRefused: { ready: 'False', isWarning: true },
  InvalidSpec: { ready: 'False', isWarning: true },
} as const;

export type Reason = keyof typeof reasons;

interface Summary {
  readonly reason: Reason;
  readonly message: string;
}

/** What a reconcile has left a PodSet with. */
export interface Outcome {
  /** Its pods that have not ended. */
  readonly active: readonly Pod[];
  readonly hindrance?: Hindrance | undefined;
}

/** What is to be reported; others' conditions stay. */
export function readyReport(set: PodSet, { active, hindrance }: Outcome, now: Date): ReadyReport<PodSet> {
  const { generation } = set.metadata;
  const hash = templateHash(set);
  const counts = {
    replicas: active.length,
    readyReplicas: active.filter(isReady).length,
    updatedReplicas: active.filter((pod) => isUpdated(pod, hash)).length,
  };
  const outdated = active.filter((pod) => isOutdated(pod, hash)).length;
  const summary = hindrance ?? sumUp(set.spec.replicas, { ...counts, outdated });
  return {
    ...summary,
    isWarning: reasons[summary.reason].isWarning,
    status: {
      ...counts,
      podNames: active.map(({ metadata }) => metadata.name).sort(),
      selector: selectorOf(set),
      observedGeneration: generation,
      conditions: conditionsOf(set, summary, now),
    },
  };
}

/** What is to be reported of one whose spec cannot be read: its pods are left alone, and what was said of them stands. */
export function invalidReport(set: PodSet, message: string, now: Date): ReadyReport<PodSet> {
  const summary = { reason: 'InvalidSpec', message } as const;
  const status = { observedGeneration: set.metadata.generation, conditions: conditionsOf(set, summary, now) };
  return { ...summary, isWarning: true, status };
}

function conditionsOf({ metadata, status }: PodSet, { reason, message }: Summary, now: Date): readonly Condition[] {
  const { ready } = reasons[reason];
  const condition = { type: 'Ready', status: ready, reason, message, observedGeneration: metadata.generation };
  return setCondition(status?.conditions, condition, now);
}

interface Counts {
  readonly replicas: number;
  readonly readyReplicas: number;
  readonly outdated: number;
}

function sumUp(desired: number, { replicas, readyReplicas, outdated }: Counts): Summary {
  if (replicas > desired) {
    return { reason: 'ScalingDown', message: `${replicas} pods are there, ${desired} are wanted` };
  }
  if (outdated > 0) {
    return { reason: 'RollingOut', message: `${outdated} of ${desired} pods are of an earlier template` };
  }
  if (readyReplicas < desired) {
    return { reason: 'PodsNotReady', message: `${readyReplicas} of ${desired} pods are ready` };
  }
  return { reason: 'PodsReady', message: `${desired} of ${desired} pods are ready` };
}
