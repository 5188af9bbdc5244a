import { isDeepStrictEqual } from 'node:util';
import type { ApplyResult } from '../apply/index.ts';
import { ApiError, isRefusal } from '../client/index.ts';
import {
  type Condition,
  type DesiredCondition,
  type DesiredStatus,
  findCondition,
  type Kind,
  type KubeObject,
  keyString,
  type StandardStatus,
  setCondition,
} from '../kind/index.ts';
import type { EventNotice, EventRecorder } from '../observability/index.ts';
import type { ReconcileContext } from './controller.ts';
import { patchStatusIfPresent } from './patch-status.ts';
import { done, type Result, requeueAfter, retry } from './result.ts';

/** What a reason of the condition `Ready` means. */
export interface Reason {
  /** The status of `Ready` under this reason. */
  readonly ready: Condition['status'];
  /** The type of the Event for this reason: `Warning` if a person should act. */
  readonly event: EventNotice['type'];
  /**
   * Whether a changed message under the same reason also records an Event and a log line. Only for messages that depend on
   * objects: a message with a clock or a counter would record an Event at each reconcile. Default false.
   */
  readonly recordsMessageChanges?: boolean;
  /** One sentence for the generated documentation. */
  readonly meaning: string;
}

/** The reasons of a kind, by name. Made by {@link defineReasons}. */
export type Reasons<R extends string = string> = Readonly<Record<R, Reason>>;

/** The names of the reasons: `ReasonOf<typeof reasons>`. */
export type ReasonOf<M extends Reasons> = keyof M & string;

/**
 * Declares the reasons of a kind, once: the status of `Ready`, the Events and the documentation follow from it.
 *
 * @throws RangeError for a reason that the API server would refuse in a condition, or that is not CamelCase.
 *
 * @example
 * const reasons = defineReasons({
 *   Printed: { ready: 'True', event: 'Normal', meaning: 'The Job has printed the message.' },
 *   JobRefused: { ready: 'False', event: 'Warning', meaning: 'The API server refuses the Job.' },
 * });
 */
export function defineReasons<R extends string>(reasons: Reasons<R>): Reasons<R> {
  for (const reason of Object.keys(reasons)) {
    if (!/^[A-Z][A-Za-z0-9]*$/.test(reason))
      throw new RangeError(`a reason must be one CamelCase word, is "${reason}"`);
  }
  return reasons;
}

/** An object whose status has conditions, as {@link defineKind} declares it. */
export type ReportingObject = KubeObject & { readonly status?: StandardStatus };

/** How a reconcile ended: the status to write, and when to requeue. */
export interface Outcome<R extends string = string, T extends ReportingObject = ReportingObject> {
  /** The reason of `Ready`; its status follows from it. */
  readonly reason: R;
  /** The message of `Ready`: it names the object and the field, and says what a person can do. */
  readonly message: string;
  /**
   * Members of the status besides `conditions` and `observedGeneration`. A member that is null or undefined is removed; one
   * that is absent stays as it is.
   */
  readonly status?: DesiredStatus<Omit<NonNullable<T['status']>, keyof StandardStatus>>;
  /** Conditions besides `Ready` that this reconcile observed. All others stay as they are, `observedGeneration` included. */
  readonly conditions?: readonly Omit<DesiredCondition, 'observedGeneration'>[] | undefined;
  /** Requeue after this delay, in milliseconds. Ignored if `error` is set: the backoff decides then. */
  readonly requeueAfterMs?: number | undefined;
  /**
   * The error to retry with the queue's backoff. A refusal by the API server ({@link isRefusal}) becomes the result `retry`,
   * which is logged only at debug level, because the status reports it. Any other error is thrown after the status was written.
   */
  readonly error?: unknown;
}

/** What an {@link OutcomeReporter} needs. */
export interface OutcomeReporterOptions<T extends ReportingObject, R extends string> {
  readonly kind: Kind<T>;
  readonly reasons: Reasons<R>;
  readonly events: Pick<EventRecorder, 'record'>;
  /**
   * The outcome of a reconcile that the API server ended by refusing one of its requests, most often to create a child.
   * Not called for a refused status write of the reporter. Its `error` is set by the reporter. Default: the refusal is thrown
   * like any other error.
   */
  readonly refused?: (object: T, refusal: ApiError) => Outcome<NoInfer<R>, T>;
  /** Default: the clock. */
  readonly now?: () => Date;
}

/**
 * Turns the outcome of each reconcile into the status, an Event, a log line, and the result for the queue.
 *
 * **Guarantees**
 * - The status is written with at most one request, and with none if nothing differs.
 * - `Ready`, the conditions of the outcome and `status.observedGeneration` carry the generation of the object that was
 *   reconciled. Conditions that the outcome does not name stay as they are.
 * - An Event and a log line are written once per change of the reason of `Ready`; also per change of its message where the
 *   reason has `recordsMessageChanges`. If the status write has no response, they follow when a later reconcile of the process
 *   reads the written status.
 * - A refusal by the API server is reported and retried with the queue's backoff: by default from 5 ms, doubling, to one
 *   minute. The object recovers without intervention once the quota or the policy allows it.
 *
 * **Assumptions**
 * - The object is from the store and is not being deleted, or has a finalizer of this controller.
 * - Reconcilers do not use their own conditions as input; otherwise a retry would do nothing.
 * - The predicate of the controller is {@link ignoringConditionMessages} or a stricter one, such as {@link generationChanged}.
 *
 * @example
 * const reporter = new OutcomeReporter({
 *   kind: Shop, reasons, events,
 *   refused: (shop, { message }) => ({ reason: 'DeploymentRefused', message }),
 * });
 * const reconcile: Reconcile = async (key, context) => {
 *   const shop = shops.get(key);
 *   if (shop === undefined || shop.metadata.deletionTimestamp !== undefined) return done;
 *   return reporter.reconcile(shop, context, async () => {
 *     const applied = await applier.apply(Deployment, deploymentOf(shop), { client: context.client, store: deployments });
 *     if (applied.type === 'nameTaken') return { reason: 'NameTaken', message: `Deployment ${shop.metadata.name} is not ours` };
 *     return { reason: 'Deployed', message: `Deployment ${shop.metadata.name} is as the spec asks` };
 *   });
 * };
 */
export class OutcomeReporter<T extends ReportingObject, R extends string> {
  readonly #options: OutcomeReporterOptions<T, R>;
  /** By uid: the last status write without a response that would have recorded an Event. Oldest first. */
  readonly #unanswered = new Map<string, { readonly ready: Condition | undefined; readonly outcome: Outcome<R, T> }>();

  constructor(options: OutcomeReporterOptions<T, R>) {
    this.#options = options;
  }

  /**
   * Runs `work` and reports its outcome. A refusal that `work` throws is converted to an outcome by `refused`.
   *
   * @param work returns the outcome; or the result of a `report` or of `finalizer`, which is returned unchanged; or undefined to
   *   write no status, for example because the store is stale. Undefined becomes `done`: the next event enqueues the key.
   * @throws any error of `work`, except a refusal that `refused` converts; the errors of {@link report}.
   */
  async reconcile(
    object: T,
    context: Pick<ReconcileContext, 'client' | 'log'>,
    work: () => Promise<Outcome<R, T> | Result | undefined>,
  ): Promise<Result> {
    const outcome = (await work().catch((error: unknown) => this.#refused(object, error))) ?? done;
    return 'type' in outcome ? outcome : this.report(object, outcome, context);
  }

  /**
   * Reports an outcome. A deleted object is not an error.
   *
   * @returns the result for the reconcile to return.
   *
   * @throws
   * - `outcome.error`, unless it is a refusal.
   * - The error of the status write; `outcome.error` is then logged. A refused status write is the `cause` of an Error, so
   *   that `reconcile` does not report it.
   * - An Error if the installed CustomResourceDefinition has no status subresource.
   */
  async report(object: T, outcome: Outcome<R, T>, context: Pick<ReconcileContext, 'client' | 'log'>): Promise<Result> {
    const { kind, reasons, now = () => new Date() } = this.#options;
    const status = desiredStatus(reasons, object, outcome, now());
    context.client.trace?.reported(outcome.reason);
    this.#recordUnanswered(object, context);
    try {
      if ((await patchStatusIfPresent(context.client, kind, object, status)) !== undefined) {
        this.#unanswered.delete(object.metadata.uid);
        if (this.#shouldRecordEvent(object, outcome)) this.#recordReason(object, outcome, context);
      }
    } catch (error) {
      if (!wasNotWritten(error) && this.#shouldRecordEvent(object, outcome)) {
        this.#remember(object, outcome, findCondition(status.conditions ?? undefined, 'Ready'));
      }
      // Only one error can be thrown. A refusal comes again with the retry, which reports it.
      if (outcome.error !== undefined && !isRefusal(outcome.error)) {
        context.log.warn({ err: outcome.error }, 'reconcile failed, and its status could not be written');
      }
      throw isRefusal(error) ? refusedStatusWrite(kind, object, error) : error;
    }
    const { error, requeueAfterMs } = outcome;
    if (error === undefined) return requeueAfterMs === undefined ? done : requeueAfter(requeueAfterMs);
    if (isRefusal(error)) return retry(error);
    throw error;
  }

  /** Records an Event and a log line for an action, such as recreating a child. Does not wait and never throws. */
  recordEvent(object: T, notice: Omit<EventNotice, 'action'>, { log }: Pick<ReconcileContext, 'log'>): void {
    const { kind, events } = this.#options;
    log.info({ reason: notice.reason }, notice.note);
    events.record(kind, object, { ...notice, action: 'Reconcile' });
  }

  /**
   * Records an Event if an apply changed a child, or created it although `Ready` was True for this generation. Then somebody had edited or
   * deleted it, or the spec has changed. Reasons: `DeploymentChanged`, whose note names the first field that was corrected, and
   * `DeploymentRecreated`. Call it with each result of {@link Applier.apply}. Does not wait and never throws.
   */
  recordRepair(object: T, child: Kind, applied: ApplyResult<KubeObject>, context: Pick<ReconcileContext, 'log'>): void {
    if (applied.type === 'applied') {
      const note = `applied ${child.kind} ${applied.object.metadata.name}, which differed from the spec in ${applied.difference}`;
      this.recordEvent(object, { type: 'Normal', reason: `${child.kind}Changed`, note }, context);
    }
    const ready = findCondition(object.status?.conditions, 'Ready');
    const existed = ready?.status === 'True' && ready.observedGeneration === object.metadata.generation;
    if (applied.type === 'created' && existed) {
      const note = `created ${child.kind} ${applied.object.metadata.name} again: it was deleted`;
      this.recordEvent(object, { type: 'Normal', reason: `${child.kind}Recreated`, note }, context);
    }
  }

  #refused(object: T, error: unknown): Outcome<R, T> {
    const { refused } = this.#options;
    if (refused === undefined || !isRefusal(error)) throw error;
    return { ...refused(object, error), error };
  }

  #shouldRecordEvent(object: T, { reason, message }: Outcome<R, T>): boolean {
    const { recordsMessageChanges = false } = this.#options.reasons[reason];
    const before = findCondition(object.status?.conditions, 'Ready');
    return before?.reason !== reason || (recordsMessageChanges && before.message !== message);
  }

  #recordReason(object: T, { reason, message }: Outcome<R, T>, context: Pick<ReconcileContext, 'log'>): void {
    this.recordEvent(object, { type: this.#options.reasons[reason].event, reason, note: message }, context);
  }

  #remember(object: T, outcome: Outcome<R, T>, ready: Condition | undefined): void {
    const { uid } = object.metadata;
    this.#unanswered.delete(uid);
    const [oldest] = this.#unanswered.keys();
    if (oldest !== undefined && this.#unanswered.size >= maxUnanswered) this.#unanswered.delete(oldest);
    this.#unanswered.set(uid, { ready, outcome });
  }

  /** Records the reason of a status write without a response, if the object shows that it was stored. */
  #recordUnanswered(object: T, context: Pick<ReconcileContext, 'log'>): void {
    const { uid } = object.metadata;
    const unanswered = this.#unanswered.get(uid);
    if (unanswered === undefined) return;
    if (!isDeepStrictEqual(findCondition(object.status?.conditions, 'Ready'), unanswered.ready)) return;
    this.#unanswered.delete(uid);
    this.#recordReason(object, unanswered.outcome, context);
  }
}

/** Limits the memory for objects that were deleted after a status write without a response. */
const maxUnanswered = 1000;

/** Not itself a refusal: {@link OutcomeReporter.reconcile} would convert it, and write another status. */
const refusedStatusWrite = ({ kind }: Kind, { metadata }: KubeObject, refusal: ApiError): Error =>
  new Error(`the API server refuses the status of ${kind} ${keyString(metadata)}: ${refusal.message}`, {
    cause: refusal,
  });

/** Whether the API server certainly did not write. After any other error it may have written. */
const wasNotWritten = (error: unknown): boolean => error instanceof ApiError && error.code < 500;

/**
 * The status that an outcome asks for: `Ready` and the other conditions of the outcome, stamped with the generation of the
 * object, beside the conditions that others set.
 */
export function desiredStatus<T extends ReportingObject, R extends string>(
  reasons: Reasons<R>,
  object: T,
  { reason, message, status, conditions = [] }: Outcome<R, T>,
  now: Date,
): DesiredStatus<NonNullable<T['status']>> {
  const { generation } = object.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const ready = { type: 'Ready', status: reasons[reason].ready, reason, message };
  const all = [...conditions, ready].reduce<readonly Condition[]>(
    (set, condition) => setCondition(set, { ...condition, ...observed }, now),
    object.status?.conditions ?? [],
  );
  const standard: DesiredStatus<StandardStatus> = { ...observed, conditions: all };
  return { ...status, ...standard } as DesiredStatus<NonNullable<T['status']>>;
}
