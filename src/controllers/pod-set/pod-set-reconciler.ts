import { PodSet } from '../../api/index.ts';
import {
  type Applier,
  type Client,
  claim,
  done,
  type EventRecorder,
  isConflict,
  isNotFound,
  keyOf,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
  type Result,
  TerminalError,
} from '../../runtime/index.ts';
import { Pod } from '../built-in-kinds.ts';
import { isInvalidField, isRefusal } from '../refusal.ts';
import { reportReady } from '../report-ready.ts';
import { isActive, isReady, isSelected, isUpdated, newPod, templateHash } from './pod-set-pod.ts';
import { type Outcome, readyReport } from './pod-set-status.ts';
import { inOrderOfRemoval } from './removal-order.ts';
import { slowStart } from './slow-start.ts';

/** What the reconciler reads and writes by. */
export interface PodSetReconcilerOptions {
  readonly sets: ReadonlyStore<PodSet>;
  readonly pods: ReadonlyStore<Pod>;
  /** The pods of a namespace that have a PodSet's labels, whoever owns them. */
  readonly labelled: (set: PodSet) => Iterable<Pod>;
  readonly applier: Applier;
  readonly events: EventRecorder;
}

/**
 * Keeps as many pods as a PodSet asks for, of its template. What it has written it sees before it looks again, so it
 * never makes or deletes one too many.
 */
export class PodSetReconciler {
  readonly #options: PodSetReconcilerOptions;

  constructor(options: PodSetReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const set = this.#options.sets.get(key);
    // Its pods go with it: the garbage collector follows the owner references.
    if (set === undefined || set.metadata.deletionTimestamp !== undefined) return done;
    const pods = await this.#claim(set, context.client);
    const { active, error } = await this.#act(set, pods.filter(isActive), context.client);
    const outcome: Outcome = {
      active,
      refusal: isRefusal(error) ? (error.status.message ?? error.message) : undefined,
    };
    await reportReady(this.#options.events, PodSet, set, readyReport(set, outcome, new Date()), context);
    // A template that is wrong is so until it is changed.
    if (isInvalidField(error)) throw new TerminalError(error.message, { cause: error });
    if (error !== undefined) throw error;
    return done;
  }

  #claim(set: PodSet, client: Client): Promise<readonly Pod[]> {
    const candidates = new Set([...this.#options.pods.byOwner(set.metadata.uid), ...this.#options.labelled(set)]);
    return claim({
      client,
      ownerKind: PodSet,
      owner: set,
      childKind: Pod,
      candidates,
      matches: (pod) => isSelected(set, pod),
    });
  }

  /** Makes pods, or deletes some, or replaces one; returns those that there are then, and what kept it from doing more. */
  async #act(
    set: PodSet,
    active: readonly Pod[],
    client: Client,
  ): Promise<{ readonly active: readonly Pod[]; readonly error?: unknown }> {
    const missing = set.spec.replicas - active.length;
    if (missing > 0) {
      const made: Pod[] = [];
      const { error } = await slowStart(missing, async () => made.push(await this.#make(set, client)));
      return { active: [...active, ...made], error };
    }
    const victims = missing < 0 ? inOrderOfRemoval(active).slice(0, -missing) : this.#outdated(set, active);
    await Promise.all(victims.map((pod) => remove(pod, client)));
    return { active: active.filter((pod) => !victims.includes(pod)) };
  }

  async #make(set: PodSet, client: Client): Promise<Pod> {
    const pod = newPod(set, templateHash(set));
    const applied = await this.#options.applier.createOnce(Pod, pod, { client, store: this.#options.pods });
    if (applied.type === 'nameTaken')
      throw new Error(`there is a pod ${pod.metadata.name} already: another name is tried`);
    return applied.object;
  }

  /** The one pod to replace next, if any: of an earlier template, and only when no other is missing because of it. */
  #outdated(set: PodSet, active: readonly Pod[]): readonly Pod[] {
    const hash = templateHash(set);
    const outdated = inOrderOfRemoval(active.filter((pod) => !isUpdated(pod, hash)));
    const [next] = outdated;
    // In that order one that is not ready, and serves nobody, comes first.
    if (next === undefined || (isReady(next) && !active.every(isReady))) return [];
    return [next];
  }
}

/** This very pod; one that is gone, or has been followed by another of its name, is no error. */
async function remove(pod: Pod, client: Client): Promise<void> {
  try {
    await client.delete(Pod, keyOf(pod), { uid: pod.metadata.uid });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}
