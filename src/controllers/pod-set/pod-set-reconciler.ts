import { limits, PodSet } from '../../api/index.ts';
import { isRefusal } from '../../runtime/client/index.ts';
import { adoptAndRelease, specProblem } from '../../runtime/controller/index.ts';
import {
  type Applier,
  defineReasons,
  done,
  type EventRecorder,
  isControlledBy,
  keyString,
  type ObjectKey,
  type Outcome,
  OutcomeReporter,
  type ReadonlyStore,
  type ReasonOf,
  type ReconcileContext,
  type Result,
} from '../../runtime/index.ts';
import { Pod } from '../../runtime/kinds/index.ts';
import { isReady, keepReadFields, problemAmong } from '../pods.ts';
import { serverMessage } from '../refusal.ts';
import {
  type DefaultPodSettings,
  isActive,
  isOutdated,
  isSelected,
  isUpdated,
  selectorOf,
  templateHash,
  templateProblem,
} from './pod.ts';
import { blockedReason, type Failure, Scaling, type ScalingState } from './scaling.ts';

/** The reasons of `Ready` of a PodSet. */
export const podSetReasons = defineReasons({
  PodsReady: {
    ready: 'True',
    event: 'Normal',
    meaning: 'The desired number of pods is ready and of the current template.',
  },
  // Progress: until all pods are as desired, the next one that starts, becomes ready or ends changes the status again.
  PodsNotReady: {
    ready: 'False',
    event: 'Normal',
    isProgress: true,
    meaning: 'Some pods are not ready. The message says why a pod does not start.',
  },
  RollingOut: { ready: 'False', event: 'Normal', isProgress: true, meaning: 'Some pods are of an earlier template.' },
  ScalingDown: { ready: 'False', event: 'Normal', isProgress: true, meaning: 'There are more pods than desired.' },
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
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning:
      'A required field is missing, usually `replicas`, or a field is too large. The API server refuses such a PodSet, unless it was stored under an older CustomResourceDefinition or only `template.spec` has too many values (2,500). The operator does not change its pods.',
  },
});

type PodSetOutcome = Outcome<ReasonOf<typeof podSetReasons>, PodSet>;

/** Options of {@link PodSetReconciler}. */
export interface PodSetReconcilerOptions {
  readonly sets: ReadonlyStore<PodSet>;
  readonly pods: ReadonlyStore<Pod>;
  /** The pods that have the labels of a PodSet, whoever owns them. */
  readonly labelled: (set: PodSet) => Iterable<Pod>;
  readonly applier: Applier;
  readonly events: EventRecorder;
  /** Settings of the pods of a PodSet without a template. */
  readonly defaultPod: DefaultPodSettings;
}

/**
 * Keeps the number of pods that a PodSet asks for, of its template. The cache shows the pods that a reconcile has created and deleted
 * before the next one begins. Therefore no reconcile creates or deletes too many pods, except after a change of leader.
 */
export class PodSetReconciler {
  readonly #options: PodSetReconcilerOptions;
  readonly #reporter: OutcomeReporter<PodSet, ReasonOf<typeof podSetReasons>>;
  /** By `keyString` of the PodSet. */
  readonly #states = new Map<string, ScalingState>();

  constructor(options: PodSetReconcilerOptions) {
    this.#options = options;
    this.#reporter = new OutcomeReporter({
      kind: PodSet,
      reasons: podSetReasons,
      events: options.events,
      refused: (set, refusal) => ({
        reason: 'AdoptionRefused',
        message: serverMessage(refusal),
        status: statusOf(set, this.#observedPods(set)),
      }),
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const set = this.#options.sets.get(key);
    // The garbage collector deletes the pods with their owner.
    if (set === undefined || set.metadata.deletionTimestamp !== undefined) {
      this.#states.delete(keyString(key));
      return done;
    }
    return this.#reporter.reconcile(set, context, () => this.#reconcilePods(set, key, context));
  }

  async #reconcilePods(set: PodSet, key: ObjectKey, context: ReconcileContext): Promise<PodSetOutcome> {
    const invalid = invalidSpecMessage(set);
    if (invalid !== undefined) {
      return { reason: 'InvalidSpec', message: invalid, status: statusOf(set, this.#observedPods(set)) };
    }
    const { applier, pods: store, defaultPod } = this.#options;
    const { pods, failures } = await this.#adoptAndRelease(set, context);
    const state = this.#stateOf(keyString(key));
    const scaling = new Scaling({ set, pods, store, applier, client: context.client, state, defaultPod });
    await scaling.run();
    failures.push(...scaling.failures);
    this.#recordEvent(set, 'PodsMade', scaling.created, context);
    this.#recordEvent(set, 'PodsRemoved', scaling.deleted, context);
    const { active, pause, isIncomplete } = scaling;
    return {
      ...(blockedReason(failures, pause) ?? readinessOf(set, active)),
      status: statusOf(set, active),
      // The pods that this reconcile has created do not enqueue the key.
      requeueAfterMs: pause?.leftMs ?? (isIncomplete ? 0 : undefined),
      // The status reports only refusals, so another error is returned first: it is logged.
      error: (failures.find(({ error }) => !isRefusal(error)) ?? failures[0])?.error,
    };
  }

  /** Returns the pods of the PodSet, and the errors of adopting or releasing others. */
  async #adoptAndRelease(
    set: PodSet,
    { client }: ReconcileContext,
  ): Promise<{ readonly pods: readonly Pod[]; readonly failures: Failure[] }> {
    const own = this.#options.pods.byOwner(set.metadata.uid);
    // Only its owner needs a pod that has ended.
    const labelled = [...this.#options.labelled(set)].filter(isActive);
    const { children, errors } = await adoptAndRelease({
      client,
      ownerKind: PodSet,
      owner: set,
      childKind: Pod,
      candidates: new Set([...own, ...labelled]),
      matches: (pod) => isSelected(set, pod),
      transform: keepReadFields,
    });
    // After any other error the number of pods is unknown: a pod that has changed since may belong to this PodSet by now.
    const otherErrors = errors.filter((error) => !isRefusal(error));
    if (otherErrors.length > 0) throw otherErrors[0];
    return { pods: children, failures: errors.map((error) => ({ operation: 'adopt', error })) };
  }

  /** The pods that a reconcile would count, adoptions aside, as the cache shows them. */
  #observedPods(set: PodSet): readonly Pod[] {
    const own = [...this.#options.pods.byOwner(set.metadata.uid)];
    return own.filter((pod) => isControlledBy(pod, set) && isSelected(set, pod) && isActive(pod));
  }

  #stateOf(key: string): ScalingState {
    const state = this.#states.get(key) ?? {
      namesToReuse: [],
      unansweredDeletions: new Set(),
      failedDeletions: new Set(),
    };
    this.#states.set(key, state);
    return state;
  }

  #recordEvent(set: PodSet, reason: 'PodsMade' | 'PodsRemoved', pods: readonly Pod[], context: ReconcileContext): void {
    if (pods.length === 0) return;
    const note = `${reason === 'PodsMade' ? 'created' : 'deleted'} ${namesOf(pods)}`;
    this.#reporter.recordEvent(set, { type: 'Normal', reason, note }, context);
  }
}

function invalidSpecMessage(set: PodSet): string | undefined {
  const problem = specProblem(PodSet, set) ?? templateProblem(set);
  if (problem !== undefined) return problem;
  return typeof set.spec.replicas === 'number' ? undefined : 'spec.replicas is not a number';
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
