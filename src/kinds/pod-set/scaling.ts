import { ApiError, isInvalidField, isRefusal } from '@echoperator/runtime/client';
import { type Context, childManifest, ReconcileEnd } from '@echoperator/runtime/controller';
import { Pod } from '@echoperator/runtime/kinds';
import { isReady, keepReadFields, podProblem } from '../shared/pods.ts';
import { inFullBatches, slowStart } from './batches.ts';
import { PodSet } from './kind.ts';
import { type DefaultPodSettings, isActive, isUpdated, newPod, podNames, templateHash } from './pod.ts';
import { earlyEnds, inOrderOfRemoval, lastReadyAt, nextToReplace, surplusEnded } from './removal.ts';

/**
 * The most pods that one reconcile creates or deletes, as in a ReplicaSet (burstReplicas in
 * k8s.io/kubernetes/pkg/controller/replicaset). It limits the damage of a wrong replica count.
 */
const burst = 500;

/**
 * The state that a reconcile of a PodSet leaves for the next one. It is lost with the process, and the first reconcile
 * needs none.
 *
 * A request without an answer may still be in flight and take effect later. So the next reconcile repeats it first: the
 * API server refuses a second pod of the same name, and ignores a second deletion of the same uid. With another name or
 * another pod there would be one creation or deletion too many, as there may be after a change of leader.
 */
export interface ScalingState {
  /**
   * The names of pods that were created, perhaps without success, until the cache holds the pod: a stale cache cannot
   * cause a second pod. Reusing them also keeps the message of a refusal constant, which quotes the name.
   */
  namesToReuse: readonly string[];
  /** The uids of pods whose deletion had no answer. */
  unansweredDeletions: ReadonlySet<string>;
  /**
   * The uids of pods whose deletion failed, also without an answer, the latest failure last. They are tried after the
   * others.
   */
  failedDeletions: ReadonlySet<string>;
  /** The youngest pod that ended early, and when, on the clock of `performance.now`. */
  lastEarlyEnd?: { readonly uid: string; readonly atMs: number } | undefined;
  /** When a reconcile last reported, on the clock of `performance.now`. */
  reportedAtMs?: number;
}

/** The state before the first reconcile. */
export const newScalingState = (): ScalingState => ({
  namesToReuse: [],
  unansweredDeletions: new Set(),
  failedDeletions: new Set(),
});

/** A failed request about a pod. */
export interface Failure {
  readonly operation: 'create' | 'delete' | 'adopt';
  readonly error: unknown;
}

/** Why a PodSet cannot reach its spec until a person acts. */
export interface BlockedReason {
  readonly reason: 'InvalidTemplate' | 'PodRefused' | 'PodsEndEarly' | 'RemovalRefused' | 'AdoptionRefused';
  readonly message: string;
}

/** Options of {@link Scaling}. */
export interface ScalingOptions {
  readonly set: PodSet;
  /** The pods of the PodSet. */
  readonly pods: readonly Pod[];
  readonly context: Pick<
    Context<PodSet, never, unknown, ScalingState, Record<never, never>>,
    'client' | 'memory' | 'get' | 'tryCreateOnce' | 'delete'
  >;
  /** Settings of pods without a template. */
  readonly defaultPod: DefaultPodSettings;
}

/**
 * Creates and deletes pods of a PodSet, one step towards its spec. Collects errors in `failures`.
 *
 * @throws ReconcileEnd if the PodSet is gone or has another spec.
 */
export class Scaling {
  /**
   * The pods that this step created, as the cache will show them: whole, 500 pods of a large template would fill the
   * memory.
   */
  readonly created: Pod[] = [];
  /** The pods that this step deleted. */
  readonly deleted: Pod[] = [];
  readonly failures: Failure[] = [];
  /** Set while no pod is created: why, and for how many milliseconds. */
  pause: { readonly message: string; readonly leftMs: number } | undefined;
  /** Whether more pods are missing than one step creates. */
  isIncomplete = false;
  readonly #options: ScalingOptions;
  readonly #hash: string;
  /** Whether a deletion of the pod by an earlier step had no answer. */
  readonly #isUnanswered: (pod: Pod) => boolean;
  /** In the order of removal. Pods whose deletion had no answer come first. */
  readonly #active: readonly Pod[];
  /** Pods that this step wanted to delete and that were gone already. */
  readonly #gone: Pod[] = [];

  constructor(options: ScalingOptions) {
    const { set, pods, context } = options;
    this.#options = options;
    this.#hash = templateHash(set);
    const { unansweredDeletions } = context.memory;
    this.#isUnanswered = ({ metadata }) => unansweredDeletions.has(metadata.uid);
    const inOrder = inOrderOfRemoval(pods.filter(isActive));
    this.#active = [...inOrder.filter(this.#isUnanswered), ...inOrder.filter((pod) => !this.#isUnanswered(pod))];
  }

  /** The pods that exist now and have not ended. */
  get active(): readonly Pod[] {
    const gone = new Set([...this.deleted, ...this.#gone]);
    return [...this.#active.filter((pod) => !gone.has(pod)), ...this.created];
  }

  get #state(): ScalingState {
    return this.#options.context.memory;
  }

  async run(): Promise<void> {
    const { set, pods } = this.#options;
    const state = this.#state;
    state.unansweredDeletions = new Set();
    state.namesToReuse = state.namesToReuse.filter((name) => !this.#isTaken(name));
    const missing = set.spec.replicas - this.#active.length;
    const surplus = this.#active.slice(0, Math.max(0, -missing));
    await this.#delete([...surplus, ...surplusEnded(pods)]);
    if (missing > 0) await this.#create(missing);
    else if (missing === 0) await this.#rollOut();
  }

  async #create(missing: number): Promise<void> {
    const { set } = this.#options;
    if (this.#isPaused()) return;
    this.isIncomplete = missing > burst;
    const names = podNames(set, Math.min(missing, burst), this.#state.namesToReuse, this.#isTaken);
    const { results, failures } = await slowStart(names, (name) => this.#createPod(name));
    this.created.push(...results);
    this.#reuseLater(names);
    const end = failures.find(({ error }) => error instanceof ReconcileEnd);
    if (end !== undefined) throw end.error;
    this.failures.push(...failures.map(({ error }) => ({ operation: 'create', error }) as const));
    if (failures.some(({ error }) => isQuotaExceeded(error))) await this.#freeQuota();
  }

  /** Keeps also the names that this step did not try: their pods may still be created. */
  #reuseLater(names: readonly string[]): void {
    this.#state.namesToReuse = [...new Set([...names, ...this.#state.namesToReuse])];
  }

  async #createPod(name: string): Promise<Pod> {
    const { tryCreateOnce } = this.#options.context;
    const applied = await tryCreateOnce(Pod, this.#newPod(name), { fieldValidation: 'Strict' });
    // A pod that exists and belongs to this PodSet was created by an earlier request without an answer.
    if (applied.type === 'created' || applied.type === 'unchanged') return keepReadFields(applied.object);
    throw new Error(`a pod named ${name} exists already: the next reconcile tries another name`);
  }

  readonly #newPod = (name: string) => newPod(this.#options.set, this.#hash, name, this.#options.defaultPod);

  readonly #isTaken = (name: string): boolean => this.#options.context.get(Pod, name) !== undefined;

  /** Deletes a pod of an earlier template if the next one may be replaced. The next reconcile creates the new pod. */
  async #rollOut(): Promise<void> {
    const next = nextToReplace(this.#candidates(this.#active), this.#hash);
    if (next === undefined || this.#isPaused() || !(await this.#isTemplateAccepted())) return;
    await this.#delete([next]);
  }

  /** Deletes a pod of an earlier template that is not ready, because it uses quota that a current pod needs. */
  async #freeQuota(): Promise<void> {
    const notReady = this.#active.filter((pod) => !isReady(pod));
    const next = nextToReplace(this.#candidates(notReady), this.#hash);
    if (next !== undefined) await this.#delete([next]);
  }

  /** Whether to create no pod for now. Without a pause, pods that end at once would be replaced in a hot loop. */
  #isPaused(): boolean {
    const { pods } = this.#options;
    const state = this.#state;
    const early = earlyEnds(pods, this.#hash);
    if (early === undefined) return false;
    const { count, youngest, pauseMs } = early;
    const { uid } = youngest.metadata;
    // Use the timestamps of the pod only once: the clock that wrote them may be wrong.
    const ageMs = Math.max(0, Date.now() - lastReadyAt(youngest));
    state.lastEarlyEnd =
      state.lastEarlyEnd?.uid === uid ? state.lastEarlyEnd : { uid, atMs: performance.now() - ageMs };
    const leftMs = state.lastEarlyEnd.atMs + pauseMs - performance.now();
    if (leftMs <= 0) return false;
    const message = `${count} pods in a row have ended within ten minutes: the next one is created after ${pauseMs / 1000} s`;
    const problem = podProblem(youngest);
    this.pause = { message: problem === undefined ? message : `${message}; ${problem}`, leftMs };
    return true;
  }

  /** Validates a new template by a dry run before its first pod replaces one of an earlier template. */
  async #isTemplateAccepted(): Promise<boolean> {
    if (this.#active.some((pod) => isUpdated(pod, this.#hash))) return true;
    const { set, context } = this.#options;
    const [name = ''] = podNames(set, 1, this.#state.namesToReuse, this.#isTaken);
    this.#reuseLater([name]);
    try {
      const manifest = childManifest({ kind: PodSet, object: set }, Pod, this.#newPod(name));
      await context.client.create(Pod, manifest, { dryRun: true, fieldValidation: 'Strict' });
      return true;
    } catch (error) {
      // The pod that is replaced frees its quota.
      if (isQuotaExceeded(error) || isDryRunUnsupported(error)) return true;
      this.failures.push({ operation: 'create', error });
      return false;
    }
  }

  /** Deletes these pods by uid. A pod that is gone, or was replaced by another of the same name, is not an error. */
  async #delete(pods: readonly Pod[]): Promise<void> {
    const { context } = this.#options;
    const state = this.#state;
    const { results, failures } = await inFullBatches(this.#failedLast(pods).slice(0, burst), async (pod) => ({
      pod,
      result: await context.delete(Pod, pod),
    }));
    for (const { pod, result } of results) (result === 'gone' ? this.#gone : this.deleted).push(pod);
    this.failures.push(...failures.map(({ error }) => ({ operation: 'delete', error }) as const));
    const failed = new Map(failures.map(({ item, error }) => [item, error]));
    const deleted = new Set(results.map(({ pod }) => pod));
    const unanswered = pods.filter((pod) =>
      // A pod that was not tried keeps the state that it had before.
      failed.has(pod) ? isUnansweredError(failed.get(pod)) : !deleted.has(pod) && this.#isUnanswered(pod),
    );
    state.unansweredDeletions = new Set([
      ...state.unansweredDeletions,
      ...unanswered.map(({ metadata }) => metadata.uid),
    ]);
    const tried = new Set([...deleted, ...failed.keys()].map(({ metadata }) => metadata.uid));
    const existing = new Set(this.#options.pods.map(({ metadata }) => metadata.uid));
    state.failedDeletions = new Set([
      ...[...state.failedDeletions].filter((uid) => existing.has(uid) && !tried.has(uid)),
      ...[...failed.keys()].map(({ metadata }) => metadata.uid),
    ]);
  }

  /**
   * In the order in which to choose one to delete: a deletion without an answer is repeated before another pod is
   * chosen.
   */
  #candidates(pods: readonly Pod[]): readonly Pod[] {
    const answered = pods.filter((pod) => !this.#isUnanswered(pod));
    return [...pods.filter(this.#isUnanswered), ...this.#failedLast(answered)];
  }

  /**
   * Otherwise the same pods would fail each time, and hold up the others. The one that failed first is tried again
   * first.
   */
  #failedLast(pods: readonly Pod[]): readonly Pod[] {
    const ranks = new Map([...this.#state.failedDeletions].map((uid, rank) => [uid, rank]));
    const rankOf = ({ metadata }: Pod): number => ranks.get(metadata.uid) ?? -1;
    return [...pods].sort((one, other) => rankOf(one) - rankOf(other));
  }
}

/**
 * The reason that the status reports for failures. A refused creation comes first, then the pause, then other refusals.
 * Failures that are not refusals are logged instead.
 */
export function blockedReason(failures: readonly Failure[], pause: Scaling['pause']): BlockedReason | undefined {
  const refused = failures.filter(({ error }) => isRefusal(error));
  const paused = pause && ({ reason: 'PodsEndEarly', message: pause.message } as const);
  return refusalReason(refused.find(({ operation }) => operation === 'create')) ?? paused ?? refusalReason(refused[0]);
}

function refusalReason(failure: Failure | undefined): BlockedReason | undefined {
  if (failure === undefined || !isRefusal(failure.error)) return undefined;
  const [reason, message] = [reasonOf(failure), failure.error.serverMessage];
  // The API server names a field of the pod, such as `spec.containers`.
  return { reason, message: reason === 'InvalidTemplate' ? `spec.template: ${message}` : message };
}

function reasonOf({ operation, error }: Failure): BlockedReason['reason'] {
  if (operation === 'delete') return 'RemovalRefused';
  if (operation === 'adopt') return 'AdoptionRefused';
  return isInvalidTemplate(error) ? 'InvalidTemplate' : 'PodRefused';
}

/**
 * Whether a field of the template has an invalid value or type, or does not exist. The API server finds the latter two
 * when it decodes the request (k8s.io/apiserver/pkg/endpoints/handlers, transformDecodeError).
 */
const isInvalidTemplate = (error: unknown): boolean =>
  isInvalidField(error) || hasMessage(error, 400, / cannot be handled as a Pod: /);

/** Whether a quota is full. A quota that requires a field has another message (plugin/resourcequota). */
const isQuotaExceeded = (error: unknown): boolean => hasMessage(error, 403, /exceeded quota: /);

/**
 * Whether a dry run failed because a webhook does not support dry runs
 * (k8s.io/apiserver/pkg/admission/plugin/webhook/errors). Such a response says nothing about the pod.
 */
const isDryRunUnsupported = (error: unknown): boolean => hasMessage(error, 400, /does not support dry run/);

/** Whether the request may have taken effect, or still may. A failing webhook refuses a request with a code of 500. */
const isUnansweredError = (error: unknown): boolean =>
  !(isRefusal(error) || (error instanceof ApiError && error.code < 500));

const hasMessage = (error: unknown, code: number, pattern: RegExp): boolean =>
  error instanceof ApiError && error.code === code && pattern.test(error.status.message ?? '');
