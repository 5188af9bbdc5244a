import type { PodSet } from '../../api/index.ts';
import { ApiError, isRefusal } from '../../runtime/client/index.ts';
import { type Applier, type Client, deleteIfPresent, keyOf, type ReadonlyStore } from '../../runtime/index.ts';
import { Pod } from '../built-in-kinds.ts';
import { isReady, podProblem } from '../pods.ts';
import { isDryRunUnsupported, isInvalidField, wordsOf } from '../refusal.ts';
import { all, slowStart } from './batches.ts';
import { isActive, isUpdated, newPod, podNames, templateHash } from './pod.ts';
import { earlyEnds, inOrderOfRemoval, lastReadyAt, nextToReplace, surplusEnded } from './removal.ts';

/**
 * One reconcile makes and removes no more pods than this, as a ReplicaSet: a replica count that is a typo is noticed before all
 * of its pods exist (burstReplicas in k8s.io/kubernetes/pkg/controller/replicaset).
 */
const burst = 500;

/**
 * What is remembered of a PodSet from one reconcile to the next. None of it is required: after a restart the first reconcile
 * starts without it.
 *
 * A request whose answer was lost may still be in flight, and take effect after the next look at the cluster. So the next
 * reconcile repeats it before anything else: a second pod of the same name is refused, a second deletion of the same uid does
 * nothing, whereas another name or another victim would be one too many.
 */
export interface Memory {
  /** Names of pods that could not be made. Reusing them also keeps the message of a refusal, which quotes the name, the same. */
  names: readonly string[];
  /** The uids of pods whose deletion had no answer. */
  leaving: ReadonlySet<string>;
  /** The youngest pod that ended early, and when, on the clock of `performance.now`. */
  ended?: { readonly uid: string; readonly atMs: number } | undefined;
}

/** A request about a pod that failed. */
export interface Failure {
  readonly doing: 'making' | 'removing' | 'claiming';
  readonly error: unknown;
}

/** Why a PodSet is not as its spec asks, and what a person can do about it. */
export interface BlockedReason {
  readonly reason: 'InvalidTemplate' | 'PodRefused' | 'PodsEndEarly' | 'RemovalRefused' | 'AdoptionRefused';
  readonly message: string;
}

/** What {@link Scaling} needs. */
export interface ScalingOptions {
  readonly set: PodSet;
  /** The pods of the PodSet. */
  readonly pods: readonly Pod[];
  readonly store: ReadonlyStore<Pod>;
  readonly applier: Applier;
  readonly client: Client;
  readonly memory: Memory;
  /** The image of pods without a template. */
  readonly image: string;
}

/** One step from the pods of a PodSet to those that its spec asks for. Failures are collected in `failures`. */
export class Scaling {
  readonly made: Pod[] = [];
  /** Pods that this step removed. */
  readonly removed: Pod[] = [];
  readonly failures: Failure[] = [];
  /** Why no pod is made for now, and for how long, in milliseconds. */
  pause: { readonly message: string; readonly leftMs: number } | undefined;
  readonly #options: ScalingOptions;
  readonly #hash: string;
  /** In the order of removal; those whose deletion had no answer come first. */
  readonly #active: readonly Pod[];
  /** Pods that were to be removed and were gone already. */
  readonly #gone: Pod[] = [];

  constructor(options: ScalingOptions) {
    const { set, pods, memory } = options;
    this.#options = options;
    this.#hash = templateHash(set);
    const isLeaving = ({ metadata }: Pod): boolean => memory.leaving.has(metadata.uid);
    const inOrder = inOrderOfRemoval(pods.filter(isActive));
    this.#active = [...inOrder.filter(isLeaving), ...inOrder.filter((pod) => !isLeaving(pod))];
  }

  /** The pods that exist now and have not ended. */
  get active(): readonly Pod[] {
    const gone = new Set([...this.removed, ...this.#gone]);
    return [...this.#active.filter((pod) => !gone.has(pod)), ...this.made];
  }

  async run(): Promise<void> {
    const { set, pods, memory } = this.#options;
    memory.leaving = new Set();
    const missing = set.spec.replicas - this.#active.length;
    const surplus = this.#active.slice(0, Math.max(0, -missing));
    await this.#remove([...surplus, ...surplusEnded(pods)]);
    if (missing > 0) await this.#make(missing);
    else if (missing === 0) await this.#roll();
  }

  async #make(missing: number): Promise<void> {
    const { set, memory } = this.#options;
    if (this.#isPaused()) return;
    const names = podNames(set, Math.min(missing, burst), memory.names, this.#isTaken);
    const { results, failures } = await slowStart(names, (name) => this.#makeOne(name));
    this.made.push(...results);
    memory.names = failures.map(({ item }) => item);
    this.failures.push(...failures.map(({ error }) => ({ doing: 'making', error }) as const));
    if (failures.some(({ error }) => isQuotaExceeded(error))) await this.#makeRoom();
  }

  async #makeOne(name: string): Promise<Pod> {
    const { store, client, applier } = this.#options;
    const options = { client, store, fieldValidation: 'Strict' } as const;
    const applied = await applier.createOnce(Pod, this.#newPod(name), options);
    // A pod that exists and is ours was made by an earlier request whose answer was lost.
    if (applied.type === 'created' || applied.type === 'unchanged') return applied.object;
    throw new Error(`there is a pod ${name} already: another name is tried`);
  }

  readonly #newPod = (name: string) => newPod(this.#options.set, this.#hash, name, this.#options.image);

  readonly #isTaken = (name: string): boolean => {
    const { set, store } = this.#options;
    return store.get({ ...keyOf(set), name }) !== undefined;
  };

  /** Replaces one pod of an earlier template, if it is time to. */
  async #roll(): Promise<void> {
    const next = nextToReplace(this.#active, this.#hash);
    if (next === undefined || this.#isPaused() || !(await this.#isTemplateAccepted())) return;
    await this.#remove([next]);
  }

  /** In a full quota, removes a pod of an earlier template that is not ready: it takes the place of a current one. */
  async #makeRoom(): Promise<void> {
    const next = nextToReplace(this.#active, this.#hash);
    if (next !== undefined && !isReady(next)) await this.#remove([next]);
  }

  /** Whether no pod is made for now: otherwise pods that end at once would follow each other without end. */
  #isPaused(): boolean {
    const { pods, memory } = this.#options;
    const early = earlyEnds(pods, this.#hash);
    if (early === undefined) return false;
    const { count, youngest, pauseMs } = early;
    const { uid } = youngest.metadata;
    // Ask the pod's timestamps once: the clock that wrote them may be wrong.
    const ageMs = Math.max(0, Date.now() - lastReadyAt(youngest));
    memory.ended = memory.ended?.uid === uid ? memory.ended : { uid, atMs: performance.now() - ageMs };
    const leftMs = memory.ended.atMs + pauseMs - performance.now();
    if (leftMs <= 0) return false;
    const message = `${count} pods in a row have ended within ten minutes: another is made after ${pauseMs / 1000} s`;
    const problem = podProblem(youngest);
    this.pause = { message: problem === undefined ? message : `${message}; ${problem}`, leftMs };
    return true;
  }

  /** Asks the API server by a dry run before the first pod of a new template costs a pod of an earlier one. */
  async #isTemplateAccepted(): Promise<boolean> {
    if (this.#active.some((pod) => isUpdated(pod, this.#hash))) return true;
    const { set, client, memory } = this.#options;
    const [name = ''] = podNames(set, 1, memory.names, this.#isTaken);
    memory.names = [name];
    try {
      await client.create(Pod, this.#newPod(name), { dryRun: true, fieldValidation: 'Strict' });
      return true;
    } catch (error) {
      // The removed pod makes room in the quota.
      if (isQuotaExceeded(error) || isDryRunUnsupported(error)) return true;
      this.failures.push({ doing: 'making', error });
      return false;
    }
  }

  /** Removes these very pods; one that is gone, or was followed by another of its name, is no error. */
  async #remove(pods: readonly Pod[]): Promise<void> {
    const { client, memory } = this.#options;
    const { results, failures } = await all(pods.slice(0, burst), async (pod) => {
      const isRemoved = await deleteIfPresent(client, Pod, keyOf(pod), { uid: pod.metadata.uid });
      return { pod, isRemoved };
    });
    for (const { pod, isRemoved } of results) (isRemoved ? this.removed : this.#gone).push(pod);
    this.failures.push(...failures.map(({ error }) => ({ doing: 'removing', error }) as const));
    const unanswered = failures.filter(({ error }) => isUnanswered(error));
    memory.leaving = new Set([...memory.leaving, ...unanswered.map(({ item }) => item.metadata.uid)]);
  }
}

/**
 * What the status says of failures: first of a pod that could not be made, then of the pause, then of other refusals. Failures
 * that are no refusals are not told: they are logged.
 */
export function blockedReason(failures: readonly Failure[], pause: Scaling['pause']): BlockedReason | undefined {
  const refused = failures.filter(({ error }) => isRefusal(error));
  const paused = pause && ({ reason: 'PodsEndEarly', message: pause.message } as const);
  return told(refused.find(({ doing }) => doing === 'making')) ?? paused ?? told(refused[0]);
}

function told(failure: Failure | undefined): BlockedReason | undefined {
  if (failure === undefined || !isRefusal(failure.error)) return undefined;
  return { reason: reasonOf(failure), message: wordsOf(failure.error) };
}

function reasonOf({ doing, error }: Failure): BlockedReason['reason'] {
  if (doing === 'removing') return 'RemovalRefused';
  if (doing === 'claiming') return 'AdoptionRefused';
  return isInvalidTemplate(error) ? 'InvalidTemplate' : 'PodRefused';
}

/**
 * No pod can be made of the template: a field has a bad value, a wrong type, or does not exist. The API server finds the latter
 * two when it decodes the request (k8s.io/apiserver/pkg/endpoints/handlers, transformDecodeError).
 */
const isInvalidTemplate = (error: unknown): boolean =>
  isInvalidField(error) || says(error, 400, / cannot be handled as a Pod: /);

/** A quota is full. A quota that requires a field words its refusal differently (plugin/resourcequota). */
const isQuotaExceeded = (error: unknown): boolean => says(error, 403, /exceeded quota: /);

/** The request may have taken effect, or may still: no answer said that it did not. */
const isUnanswered = (error: unknown): boolean => !(error instanceof ApiError && error.code < 500);

const says = (error: unknown, code: number, words: RegExp): boolean =>
  error instanceof ApiError && error.code === code && words.test(error.status.message ?? '');
