import { PodSet } from '../../api/index.ts';
import { isRefusal } from '../../runtime/client/index.ts';
import { claim } from '../../runtime/controller/index.ts';
import {
  type Applier,
  defineReasons,
  done,
  type EventRecorder,
  keyString,
  missingField,
  type ObjectKey,
  type Outcome,
  OutcomeReporter,
  type ReadonlyStore,
  type ReasonOf,
  type ReconcileContext,
  type Result,
} from '../../runtime/index.ts';
import { Pod } from '../built-in-kinds.ts';
import { isReady, problemAmong } from '../pods.ts';
import { wordsOf } from '../refusal.ts';
import { isActive, isOutdated, isSelected, isUpdated, selectorOf, templateHash } from './pod.ts';
import { blockedReason, type Failure, type Memory, Scaling } from './scaling.ts';

/** The reasons of `Ready` of a PodSet. */
export const podSetReasons = defineReasons({
  PodsReady: {
    ready: 'True',
    event: 'Normal',
    meaning: 'As many pods as asked for are ready, of the current template.',
  },
  PodsNotReady: {
    ready: 'False',
    event: 'Normal',
    meaning: 'Some pods are not ready yet. The message says why one does not start.',
  },
  RollingOut: { ready: 'False', event: 'Normal', meaning: 'Some pods are of an earlier template.' },
  ScalingDown: { ready: 'False', event: 'Normal', meaning: 'There are more pods than asked for.' },
  PodsEndEarly: {
    ready: 'False',
    event: 'Warning',
    meaning: 'Pods end soon after they were made, one after the other: the next is made after a pause.',
  },
  PodRefused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The API server refuses a pod: a quota, a policy, missing permission. The message quotes it. The operator retries at least once a minute.',
  },
  InvalidTemplate: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'No pod can be made of the template: a field has a bad value, a wrong type, or does not exist. The message quotes the API server. The operator retries at least once a minute.',
  },
  RemovalRefused: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The API server refuses to remove a pod that is too many, of an earlier template, or has ended.',
  },
  AdoptionRefused: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The API server refuses to let a pod be adopted or released.',
  },
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning:
      'A field is missing, most often `replicas`: the PodSet was stored under another definition. Its pods are left alone.',
  },
});

type PodSetOutcome = Outcome<ReasonOf<typeof podSetReasons>, PodSet>;

/** What the reconciler reads and writes. */
export interface PodSetReconcilerOptions {
  readonly sets: ReadonlyStore<PodSet>;
  readonly pods: ReadonlyStore<Pod>;
  /** The pods of a namespace that have the labels of a PodSet, whoever owns them. */
  readonly labelled: (set: PodSet) => Iterable<Pod>;
  readonly applier: Applier;
  readonly events: EventRecorder;
  /** The image of the pods of a PodSet without a template. */
  readonly image: string;
}

/**
 * Keeps as many pods as a PodSet asks for, of its template. The cache has observed what one reconcile wrote before the next
 * one begins, so it never makes or deletes one pod too many.
 */
export class PodSetReconciler {
  readonly #options: PodSetReconcilerOptions;
  readonly #reporter: OutcomeReporter<PodSet, ReasonOf<typeof podSetReasons>>;
  /** By `keyString` of the PodSet. */
  readonly #memories = new Map<string, Memory>();

  constructor(options: PodSetReconcilerOptions) {
    this.#options = options;
    this.#reporter = new OutcomeReporter({
      kind: PodSet,
      reasons: podSetReasons,
      events: options.events,
      refused: (_, refusal) => ({ reason: 'AdoptionRefused', message: wordsOf(refusal) }),
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const set = this.#options.sets.get(key);
    // The garbage collector deletes the pods with their owner.
    if (set === undefined || set.metadata.deletionTimestamp !== undefined) {
      this.#memories.delete(keyString(key));
      return done;
    }
    return this.#reporter.reconcile(set, context, () => this.#act(set, key, context));
  }

  async #act(set: PodSet, key: ObjectKey, context: ReconcileContext): Promise<PodSetOutcome> {
    const missing = missingField(PodSet, set);
    if (missing !== undefined) return { reason: 'InvalidSpec', message: `${missing} is missing` };
    if (typeof set.spec.replicas !== 'number') {
      return { reason: 'InvalidSpec', message: 'spec.replicas is no number' };
    }
    const { applier, pods: store, image } = this.#options;
    const { claimed: pods, failures } = await this.#claim(set, context);
    const memory = this.#memoryOf(keyString(key));
    const scaling = new Scaling({ set, pods, store, applier, client: context.client, memory, image });
    await scaling.run();
    failures.push(...scaling.failures);
    this.#tell(set, 'PodsMade', scaling.made, context);
    this.#tell(set, 'PodsRemoved', scaling.removed, context);
    const { active, pause } = scaling;
    return {
      ...(blockedReason(failures, pause) ?? sumUp(set, active)),
      status: statusOf(set, active),
      requeueAfterMs: pause?.leftMs,
      // An error that is no refusal is not in the status, so it must be logged.
      error: (failures.find(({ error }) => !isRefusal(error)) ?? failures[0])?.error,
    };
  }

  /** The pods of the PodSet, and what kept it from adopting or releasing others. */
  async #claim(
    set: PodSet,
    { client }: ReconcileContext,
  ): Promise<{ readonly claimed: readonly Pod[]; readonly failures: Failure[] }> {
    const own = this.#options.pods.byOwner(set.metadata.uid);
    // An ended pod is of no use to anybody but its last owner.
    const labelled = [...this.#options.labelled(set)].filter(isActive);
    const { claimed, errors } = await claim({
      client,
      ownerKind: PodSet,
      owner: set,
      childKind: Pod,
      candidates: new Set([...own, ...labelled]),
      matches: (pod) => isSelected(set, pod),
    });
    // The count is unknown: a pod that has changed since may be ours by now.
    const unsure = errors.filter((error) => !isRefusal(error));
    if (unsure.length > 0) throw unsure[0];
    return { claimed, failures: errors.map((error) => ({ doing: 'claiming', error })) };
  }

  #memoryOf(key: string): Memory {
    const memory = this.#memories.get(key) ?? { names: [], leaving: new Set() };
    this.#memories.set(key, memory);
    return memory;
  }

  #tell(set: PodSet, reason: 'PodsMade' | 'PodsRemoved', pods: readonly Pod[], context: ReconcileContext): void {
    if (pods.length === 0) return;
    const note = `${reason === 'PodsMade' ? 'made' : 'removed'} ${namesOf(pods)}`;
    this.#reporter.tell(set, { type: 'Normal', reason, note }, context);
  }
}

/** At most three names: an Event is short. */
function namesOf(pods: readonly Pod[]): string {
  const names = pods.map(({ metadata }) => metadata.name);
  const more = names.splice(3).length;
  return more === 0 ? names.join(', ') : `${names.join(', ')} and ${more} more`;
}

/** The status besides the conditions. */
function statusOf(set: PodSet, active: readonly Pod[]) {
  const hash = templateHash(set);
  return {
    replicas: active.length,
    readyReplicas: active.filter(isReady).length,
    updatedReplicas: active.filter((pod) => isUpdated(pod, hash)).length,
    podNames: active.map(({ metadata }) => metadata.name).sort(),
    selector: selectorOf(set),
  };
}

/** How far the pods are from what the spec asks for, where nothing blocks them. */
function sumUp(set: PodSet, active: readonly Pod[]): Pick<PodSetOutcome, 'reason' | 'message'> {
  const { replicas } = set.spec;
  const hash = templateHash(set);
  const outdated = active.filter((pod) => isOutdated(pod, hash)).length;
  const ready = active.filter(isReady).length;
  if (active.length > replicas) {
    return { reason: 'ScalingDown', message: `${active.length} pods are there, ${replicas} are wanted` };
  }
  const problem = problemAmong(active);
  const cause = problem === undefined ? '' : `; ${problem}`;
  if (outdated > 0) {
    return { reason: 'RollingOut', message: `${outdated} of ${replicas} pods are of an earlier template${cause}` };
  }
  if (ready < replicas) return { reason: 'PodsNotReady', message: `${ready} of ${replicas} pods are ready${cause}` };
  return { reason: 'PodsReady', message: `${replicas} of ${replicas} pods are ready` };
}
