import type { PodSet } from '../../api/index.ts';
import {
  type Applier,
  type Client,
  findCondition,
  isConflict,
  isNotFound,
  keyOf,
  type ReadonlyStore,
} from '../../runtime/index.ts';
import { Pod } from '../built-in-kinds.ts';
import { isDryRunUnsupported } from '../refusal.ts';
import { all, slowStart } from './batches.ts';
import { endedTooMany, pauseAfter } from './ended-pods.ts';
import type { Memory } from './memory.ts';
import { podNames } from './pod-names.ts';
import { type Failure, type Hindrance, isQuotaExceeded, isUnanswered } from './pod-refusal.ts';
import { isActive, isReady, isUpdated, newPod, templateHash } from './pod-set-pod.ts';
import { inOrderOfRemoval } from './removal-order.ts';
import { nextToReplace } from './rolling.ts';

/**
 * A turn makes and removes no more pods than so many, and then looks anew, as a ReplicaSet's: a number that was a slip is
 * noticed before all of it is there (burstReplicas in k8s.io/kubernetes/pkg/controller/replicaset).
 */
const burst = 500;

/** What a turn is about. */
export interface PodSetTurnOptions {
  readonly set: PodSet;
  /** The PodSet's own. */
  readonly pods: readonly Pod[];
  readonly store: ReadonlyStore<Pod>;
  readonly applier: Applier;
  readonly client: Client;
  readonly memory: Memory;
}

/** One look at the pods of a PodSet, and a step towards what it asks for. What it could not do, and why, it keeps. */
export class PodSetTurn {
  readonly made: Pod[] = [];
  readonly removed: Pod[] = [];
  readonly failures: Failure[] = [];
  /** Why it has done nothing though there is something to do. */
  hindrance: Hindrance | undefined;
  /** When there is something to do though nothing will have happened, in milliseconds. */
  dueInMs: number | undefined;
  readonly #options: PodSetTurnOptions;
  readonly #hash: string;
  /** In the order of removal, before all others those that were asked to go already. */
  readonly #active: readonly Pod[];

  constructor(options: PodSetTurnOptions) {
    const { set, pods, memory } = options;
    this.#options = options;
    this.#hash = templateHash(set);
    const isLeaving = ({ metadata }: Pod): boolean => memory.leaving.has(metadata.uid);
    const inOrder = inOrderOfRemoval(pods.filter(isActive));
    this.#active = [...inOrder.filter(isLeaving), ...inOrder.filter((pod) => !isLeaving(pod))];
  }

  readonly #isTaken = (name: string): boolean => {
    const { set, store } = this.#options;
    return store.get({ ...keyOf(set), name }) !== undefined;
  };

  /** The pods that there are now and have not ended. */
  get active(): readonly Pod[] {
    const removed = new Set(this.removed);
    return [...this.#active.filter((pod) => !removed.has(pod)), ...this.made];
  }

  async take(): Promise<void> {
    const { set, pods, memory } = this.#options;
    memory.leaving = new Set();
    const missing = set.spec.replicas - this.#active.length;
    const surplus = this.#active.slice(0, Math.max(0, -missing));
    await this.#remove([...surplus, ...endedTooMany(pods)]);
    if (missing > 0) await this.#make(missing);
    else if (missing === 0) await this.#roll();
  }

  async #make(missing: number): Promise<void> {
    const { set, memory } = this.#options;
    if (this.#isHindered()) return;
    const names = podNames(set, Math.min(missing, burst), memory.names, this.#isTaken);
    const { results, failures } = await slowStart(names, (name) => this.#makeOne(name));
    this.made.push(...results);
    memory.names = failures.map(({ item }) => item);
    this.failures.push(...failures.map(({ error }) => ({ doing: 'making', error }) as const));
    if (failures.some(({ error }) => isQuotaExceeded(error))) await this.#makeRoom();
  }

  async #makeOne(name: string): Promise<Pod> {
    const { set, store, client, applier } = this.#options;
    const pod = newPod(set, this.#hash, name);
    const applied = await applier.createOnce(Pod, pod, { client, store, fieldValidation: 'Strict' });
    // One that is there and ours was made under a name whose first answer was lost.
    if (applied.type === 'created' || applied.type === 'unchanged') return applied.object;
    throw new Error(`there is a pod ${name} already: another name is tried`);
  }

  /** Replaces one pod of an earlier template, if it is time to. */
  async #roll(): Promise<void> {
    const next = nextToReplace(this.#active, this.#hash);
    if (next === undefined || this.#isHindered() || !(await this.#isTemplateTaken())) return;
    await this.#remove([next]);
  }

  /** A pod of an earlier template that serves nobody need not keep one of the present from its place in a quota. */
  async #makeRoom(): Promise<void> {
    const next = nextToReplace(this.#active, this.#hash);
    if (next !== undefined && !isReady(next)) await this.#remove([next]);
  }

  /** Whether nothing is to be made: of a template that was refused, or after pods that have ended early. */
  #isHindered(): boolean {
    const { set, pods, memory } = this.#options;
    this.hindrance = refusedBefore(set);
    if (this.hindrance !== undefined) return true;
    const pause = pauseAfter(pods, this.#hash, memory);
    if (pause === undefined) return false;
    this.hindrance = { reason: 'PodsEndEarly', message: pause.message };
    this.dueInMs = pause.leftMs;
    return true;
  }

  /** Before a pod is given up for the first of another template the API server is asked whether it would take that. */
  async #isTemplateTaken(): Promise<boolean> {
    if (this.#active.some((pod) => isUpdated(pod, this.#hash))) return true;
    const { set, client, memory } = this.#options;
    const [name = ''] = podNames(set, 1, memory.names, this.#isTaken);
    memory.names = [name];
    try {
      await client.create(Pod, newPod(set, this.#hash, name), { dryRun: true, fieldValidation: 'Strict' });
      return true;
    } catch (error) {
      // The pod that is given up makes room.
      if (isQuotaExceeded(error) || isDryRunUnsupported(error)) return true;
      this.failures.push({ doing: 'making', error });
      return false;
    }
  }

  async #remove(pods: readonly Pod[]): Promise<void> {
    const { client, memory } = this.#options;
    const { results, failures } = await all(pods.slice(0, burst), (pod) => remove(pod, client));
    this.removed.push(...results);
    this.failures.push(...failures.map(({ error }) => ({ doing: 'removing', error }) as const));
    const unanswered = failures.filter(({ error }) => isUnanswered(error));
    memory.leaving = new Set([...memory.leaving, ...unanswered.map(({ item }) => item.metadata.uid)]);
  }
}

/** This very pod; one that is gone, or has been followed by another of its name, is no error. */
async function remove(pod: Pod, client: Client): Promise<Pod> {
  try {
    await client.delete(Pod, keyOf(pod), { uid: pod.metadata.uid });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
  return pod;
}

/** The API server has refused this very template: it would again. */
function refusedBefore({ metadata, status }: PodSet): Hindrance | undefined {
  const ready = findCondition(status?.conditions, 'Ready');
  if (ready?.reason !== 'InvalidTemplate' || ready.observedGeneration !== metadata.generation) return undefined;
  return { reason: 'InvalidTemplate', message: ready.message };
}
