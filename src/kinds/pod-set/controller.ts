/** PodSet: keeps a number of identical pods running. */

import { controllerOf, defineController, keyOf, type Outcome } from '@echoperator/runtime';
import { isRefusal } from '@echoperator/runtime/client';
import { type Context, currentReady } from '@echoperator/runtime/controller';
import { Pod } from '@echoperator/runtime/kinds';
import { limits } from '../shared/limits.ts';
import { isReady, keepReadFields, problemAmong, untilOverdueMs } from '../shared/pods.ts';
import { PodSet } from './kind.ts';
import {
  type DefaultPodSettings,
  isActive,
  isOutdated,
  isSelected,
  isUpdated,
  podLabels,
  podSetProblem,
  selectorOf,
  templateHash,
} from './pod.ts';
import { blockedReason, type Failure, newScalingState, Scaling, type ScalingState } from './scaling.ts';

/** The reasons of `Ready` of a PodSet, beside the standard ones. */
const podSetReasons = {
  PodsReady: {
    ready: 'True',
    event: 'Normal',
    meaning: 'The desired number of pods is ready and of the current template.',
  },
  PodsNotReady: {
    ready: 'False',
    event: 'Normal',
    meaning: 'Some pods are not ready. The message says why a pod does not start.',
  },
  RollingOut: { ready: 'False', event: 'Normal', meaning: 'Some pods are of an earlier template.' },
  ScalingDown: { ready: 'False', event: 'Normal', meaning: 'There are more pods than desired.' },
  PodsEndEarly: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'Several pods in a row have ended soon after their creation. The operator creates the next one after a pause.',
  },
  PodRefused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The API server refuses a pod, for example because of a quota, a policy or a missing permission. The message quotes it. The operator retries at least once a minute.',
  },
  InvalidTemplate: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'A field of the template has an invalid value or type, or does not exist. The message quotes the API server. The operator retries at least once a minute.',
  },
  RemovalRefused: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The API server refuses to delete a pod that is surplus, is of an earlier template, or has ended.',
  },
  AdoptionRefused: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The API server refuses the adoption or the release of a pod.',
  },
} as const;

type PodSetOutcome = Outcome<keyof typeof podSetReasons, PodSet>;

/**
 * Keeps the number of pods that a PodSet asks for, of its template. The cache shows the pods that a reconcile has
 * created and deleted before the next one begins. Therefore no reconcile creates or deletes too many pods, except after
 * a change of leader.
 *
 * @param defaultPod settings of the pods of a PodSet without a template.
 */
export const podSetController = (defaultPod: DefaultPodSettings) =>
  defineController(PodSet, {
    reasons: podSetReasons,
    memory: newScalingState,
    owns: [{ kind: Pod, write: 'create', deletes: true, adopts: true }],
    indexes: {
      podsByApp: { kind: Pod, values: (pod) => [appKey(pod, pod.metadata.labels?.app)] },
      setsByApp: { kind: PodSet, values: (set) => [appKey(set, podLabels(set).app)] },
    },
    watches: [
      {
        // To adopt it.
        kind: Pod,
        keys: (pod, { find }) =>
          controllerOf(pod) === undefined
            ? find('setsByApp', appKey(pod, pod.metadata.labels?.app))
                .filter((set) => isSelected(set, pod))
                .map(keyOf)
            : [],
      },
    ],
    observe: (set, { owned }) => ({
      status: statusOf(
        set,
        owned(Pod).filter((pod) => isSelected(set, pod) && isActive(pod)),
      ),
    }),
    reconcile: async (set, context) => {
      const problem = podSetProblem(set);
      if (problem !== undefined) return { reason: 'InvalidSpec', message: problem };
      const labelled = context.find('podsByApp', appKey(set, podLabels(set).app)).filter((pod) => isSelected(set, pod));
      const { pods, failures } = await adoptAndRelease(set, labelled, context);
      const scaling = new Scaling({ set, pods, context, defaultPod });
      try {
        await scaling.run();
      } finally {
        // Also of a PodSet that has changed meanwhile, which ends the reconcile.
        if (scaling.created.length > 0)
          context.event({ type: 'Normal', reason: 'PodsMade', note: `created ${namesOf(scaling.created)}` });
        if (scaling.deleted.length > 0)
          context.event({ type: 'Normal', reason: 'PodsRemoved', note: `deleted ${namesOf(scaling.deleted)}` });
      }
      failures.push(...scaling.failures);
      const { active, pause, isIncomplete } = scaling;
      const { memory } = context;
      const outcome: PodSetOutcome = {
        ...(blockedReason(failures, pause) ?? readinessOf(set, active)),
        status: statusOf(set, active),
        // The pods that this reconcile has created do not enqueue the key.
        requeueAfterMs: pause?.leftMs ?? (isIncomplete ? 0 : untilOverdueMs(active)),
        // The status reports only refusals, so another error is returned first: it is logged.
        error: (failures.find(({ error }) => !isRefusal(error)) ?? failures[0])?.error,
      };
      const waitMs = progressWaitMs(set, outcome, memory);
      if (waitMs > 0) return { requeueAfterMs: Math.min(waitMs, outcome.requeueAfterMs ?? waitMs) };
      memory.reportedAtMs = performance.now();
      return outcome;
    },
  });

/**
 * How often a status that only tells about progress is written, in milliseconds: a roll would write it twice for each
 * pod.
 */
const progressEveryMs = 1000;

/** Until all pods are as desired, the next one that starts, becomes ready or ends changes the status again. */
const progressReasons: readonly string[] = [
  'PodsNotReady',
  'RollingOut',
  'ScalingDown',
] satisfies (keyof typeof podSetReasons)[];

/**
 * How long the status may wait, in milliseconds: 0 unless it only tells about progress, as the one that was written a
 * moment ago.
 */
function progressWaitMs(set: PodSet, { reason, error }: PodSetOutcome, { reportedAtMs }: ScalingState): number {
  if (error !== undefined || reportedAtMs === undefined) return 0;
  const isProgress = (each = ''): boolean => progressReasons.includes(each);
  if (!isProgress(reason) || !isProgress(currentReady(set)?.reason)) return 0;
  return Math.max(0, reportedAtMs + progressEveryMs - performance.now());
}

const appKey = ({ metadata }: { readonly metadata: { readonly namespace?: string } }, app = ''): string =>
  `${metadata.namespace ?? ''}/${app}`;

/**
 * Returns the pods of the PodSet, and the refusals to adopt or release others.
 *
 * @param labelled the pods with its labels, whoever owns them.
 */
async function adoptAndRelease(
  set: PodSet,
  labelled: readonly Pod[],
  context: Pick<Context<PodSet, never, unknown, unknown, Record<never, never>>, 'owned' | 'adoptAndRelease'>,
): Promise<{ readonly pods: readonly Pod[]; readonly failures: Failure[] }> {
  // Only its owner needs a pod that has ended.
  const candidates = new Set([...context.owned(Pod), ...labelled.filter(isActive)]);
  const { children, errors } = await context.adoptAndRelease(Pod, candidates, (pod) => isSelected(set, pod), {
    transform: keepReadFields,
  });
  // After any other error the number of pods is unknown: a pod that has changed since may belong to this PodSet by now.
  const otherErrors = errors.filter((error) => !isRefusal(error));
  if (otherErrors.length > 0) throw otherErrors[0];
  return { pods: children, failures: errors.map((error) => ({ operation: 'adopt', error })) };
}

/** At most three names, to keep the Event short. */
function namesOf(pods: readonly Pod[]): string {
  const names = pods.map(({ metadata }) => metadata.name);
  const more = names.splice(3).length;
  return more === 0 ? names.join(', ') : `${names.join(', ')} and ${more} more`;
}

/** The status without the conditions. */
function statusOf(set: PodSet, active: readonly Pod[]) {
  const hash = templateHash(set);
  return {
    replicas: active.length,
    readyReplicas: active.filter(isReady).length,
    updatedReplicas: active.filter((pod) => isUpdated(pod, hash)).length,
    podNames: active
      .map(({ metadata }) => metadata.name)
      .sort()
      .slice(0, limits.pods),
    selector: selectorOf(set),
  };
}

/** The reason and message if nothing blocks the PodSet: they compare the pods with the spec. */
function readinessOf(set: PodSet, active: readonly Pod[]): Required<Pick<PodSetOutcome, 'reason' | 'message'>> {
  const { replicas } = set.spec;
  const hash = templateHash(set);
  const outdated = active.filter((pod) => isOutdated(pod, hash)).length;
  const ready = active.filter(isReady).length;
  if (active.length > replicas) {
    return { reason: 'ScalingDown', message: `${active.length} pods exist, ${replicas} are desired` };
  }
  const problem = problemAmong(active);
  const cause = problem === undefined ? '' : `; ${problem}`;
  if (outdated > 0) {
    const message = `${outdated} of ${replicas} pods are of an earlier template${cause}`;
    return { reason: 'RollingOut', message };
  }
  if (ready < replicas) {
    return { reason: 'PodsNotReady', message: `${ready} of ${replicas} pods are ready${cause}` };
  }
  return { reason: 'PodsReady', message: `${replicas} of ${replicas} pods are ready` };
}
