import { isDeepStrictEqual } from 'node:util';
import type { ApplyResult } from '../apply/applier.ts';
import { type ApiError, isNamespaceTerminating, isRefusal } from '../client/api-error.ts';
import { wasNotWritten } from '../client/classify-error.ts';
import { cutText } from '../client/cut-text.ts';
import { summarizeError } from '../client/error-summary.ts';
import { GateClosedError } from '../client/gate.ts';
import { type Condition, type DesiredCondition, findCondition, setCondition } from '../kind/condition.ts';
import type { StandardStatus } from '../kind/define-kind.ts';
import type { Kind } from '../kind/kind.ts';
import { type KubeObject, keyOf, keyString } from '../kind/object.ts';
import { type DesiredStatus, statusPatch } from '../kind/status-patch.ts';
import { UnreadableObjectError } from '../kind/unreadable-object.ts';
import type { EventNotice, EventRecorder } from '../observability/event-recorder.ts';
import { isPersistent, type ReconcileContext } from './controller.ts';
import { patchStatusIfPresent } from './patch-status.ts';
import { done, isTerminal, type Result, requeueAfter, retry, TerminalError } from './result.ts';

/** What a reason of the condition `Ready` means. */
export interface Reason {
  /** The status of `Ready` under this reason. */
  readonly ready: Condition['status'];
  /** The type of the Event for this reason: `Warning` if a person should act. */
  readonly event: EventNotice['type'];
  /**
   * Whether a changed message under the same reason also records an Event and a log line. Only for messages that depend
   * on objects: a message with a time or a counter would record an Event at each reconcile. Default false.
   */
  readonly recordsMessageChanges?: boolean;
  /**
   * Whether a child may be missing under this reason because it could not be created. Set it for a taken name and for a
   * refusal. {@link OutcomeReporter.recordChild} then reports a child as created, not as recreated. Default false.
   */
  readonly blocksCreation?: boolean;
  /** One sentence for the generated documentation. */
  readonly meaning: string;
}

/** The reasons of a kind, by name. Create them with {@link defineReasons}. */
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
    if (!isReason(reason)) throw new RangeError(`a reason must be one CamelCase word, is "${reason}"`);
  }
  return reasons;
}

const isReason = (reason: string): boolean => /^[A-Z][A-Za-z0-9]*$/.test(reason);

/** The format that metav1.Condition documents: `Exposed`, `example.com/Exposed`. */
const isConditionType = (type: string): boolean =>
  /^(?:[a-z0-9.-]+\/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?$/.test(type);

/** The reasons that every kind has in addition to its own. The {@link OutcomeReporter} itself reports them. */
export const commonReasons: Reasons<'InvalidSpec' | 'ReconcileFailed'> = defineReasons({
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning:
      'The operator does not act on the spec: a required field is missing, or a field has a value that the schema ' +
      'does not allow, is too large or is nested too deep. The message names the field and the value. The API server ' +
      'refuses such an object, but it may have been stored under an older CustomResourceDefinition.',
  },
  ReconcileFailed: {
    ready: 'Unknown',
    event: 'Warning',
    meaning:
      'Reconciles have failed for five seconds or more, at least three in a row, for example because the API server ' +
      'or a webhook fails. The message names the error. Where the reason is a Warning already, it stays, and its ' +
      'message names the error too. The operator retries at least once a minute.',
  },
});

/**
 * The reasons under which the runtime reports why it cannot write a child or a finalizer: see {@link defineController}.
 */
export const blockedReasons: Reasons<'NameTaken' | 'Replacing' | 'Refused'> = defineReasons({
  NameTaken: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    blocksCreation: true,
    meaning:
      'An object with the name of a child exists and belongs to somebody else. The operator does not change it. It ' +
      'continues when that object is gone.',
  },
  Replacing: {
    ready: 'False',
    event: 'Normal',
    blocksCreation: true,
    meaning:
      'A child is being deleted: it is of an earlier spec, belongs to an earlier object of this name, or somebody ' +
      'has deleted it. The operator creates the new one when it is gone.',
  },
  Refused: {
    ready: 'False',
    event: 'Warning',
    blocksCreation: true,
    meaning:
      'The API server refuses a request, for example because of a quota, a policy or a missing permission. The ' +
      'message quotes it. The operator retries at least once a minute.',
  },
});

/** The reasons that {@link defineController} adds to those of a kind. */
export const standardReasons: Reasons<StandardReason> = { ...blockedReasons, ...commonReasons };
/** The names of the standard reasons. */
export type StandardReason = 'NameTaken' | 'Replacing' | 'Refused' | 'InvalidSpec' | 'ReconcileFailed';

/** An object whose status has conditions, as {@link defineKind} declares it. */
export type ReportingObject = KubeObject & { readonly status?: StandardStatus };

/** The condition `Ready`, if it was observed for the current generation of the object. */
export function currentReady({ metadata, status }: ReportingObject): Condition | undefined {
  const ready = findCondition(status?.conditions, 'Ready');
  return ready !== undefined && ready.observedGeneration === metadata.generation ? ready : undefined;
}

type Notice = Omit<EventNotice, 'action'>;

/** How a reconcile ended: the status to write, and when to requeue. */
export interface Outcome<R extends string = string, T extends ReportingObject = ReportingObject> {
  /** The reason of `Ready`; its status follows from it. */
  readonly reason: R;
  /** The message of `Ready`: it names the object and the field, and says what a person can do. */
  readonly message: string;
  /**
   * Members of the status besides `conditions` and `observedGeneration`. A member that is null or undefined is removed;
   * one that is absent stays as it is.
   */
  readonly status?: DesiredStatus<Omit<NonNullable<T['status']>, keyof StandardStatus>> | undefined;
  /**
   * Conditions besides `Ready` that this reconcile observed. All others stay as they are, `observedGeneration`
   * included.
   */
  readonly conditions?: readonly Omit<DesiredCondition, 'observedGeneration'>[] | undefined;
  /**
   * An Event about what this reconcile did. It is recorded unless the status write fails, even if the status did not
   * differ. After a write without a response it is recorded when a later reconcile reads that status. It comes before
   * the Event for a changed reason.
   */
  readonly event?: Omit<EventNotice, 'action'> | undefined;
  /** Requeue after this delay, in milliseconds. Ignored if `error` is set: then the backoff decides. */
  readonly requeueAfterMs?: number | undefined;
  /**
   * The error to retry with the queue's backoff. A refusal by the API server ({@link isRefusal}) becomes the result
   * `retry`, which is logged only at debug level, because the status reports it. Any other error is thrown after the
   * status was written.
   */
  readonly error?: unknown;
}

/** The status and conditions that can be observed of an object in any state. */
export type Observation<T extends ReportingObject> = Pick<Outcome<string, T>, 'status' | 'conditions'>;

/** What an {@link OutcomeReporter} needs. */
export interface OutcomeReporterOptions<T extends ReportingObject, R extends string> {
  readonly kind: Kind<T>;
  readonly reasons: Reasons<R>;
  readonly events: Pick<EventRecorder, 'record'>;
  /**
   * The outcome of a reconcile in which the API server refused a request, most often to create a child. Not called for
   * a refused status write of the reporter. The reporter sets the outcome's `error`. Default: the refusal is thrown
   * like any other error.
   */
  readonly refused?: (object: T, refusal: ApiError) => Outcome<NoInfer<R>, T>;
  /**
   * The status and conditions for an outcome that has none, for example one that the reporter itself creates. Must not
   * throw.
   */
  readonly observe?: (object: T) => Observation<T>;
  /**
   * Whether `status.observedGeneration` stays unchanged, because another controller writes the rest of the status. The
   * conditions still get the observed generation. Default false.
   */
  readonly keepsObservedGeneration?: boolean;
  /** Default: the clock. */
  readonly now?: () => Date;
}

/**
 * What an {@link OutcomeReporter} needs of the context of a reconcile. Without `priorFailures` the reporter does not
 * report failures in a row.
 */
export type ReportingContext = Pick<ReconcileContext, 'client' | 'log' | 'priorFailures'> &
  Partial<Pick<ReconcileContext, 'signal'>> & {
    /** Called with the object after a status write. */
    written?(object: ReportingObject): void;
  };

/**
 * Turns the outcome of each reconcile into the status, an Event, a log line, and the result for the queue.
 *
 * **Guarantees**
 * - An outcome is written with at most one patch, and with none if nothing differs. A reconcile that follows a
 *   persistent timeout may write the failure first; its own patch is then a Conflict and is retried.
 * - `Ready`, the conditions of the outcome and `status.observedGeneration` carry the generation of the object that was
 *   reconciled. Conditions that the outcome does not name stay as they are.
 * - An Event and a log line are written once per change of the reason of `Ready`; also per change of its message where
 *   the reason has `recordsMessageChanges`. If the status write has no response, they follow when a later reconcile of
 *   the process reads the written status.
 * - If three reconciles in a row or more have failed for five seconds, `Ready` has the reason `ReconcileFailed`, and
 *   the message names the error's type and code, because its text may hold a Secret; see {@link commonReasons}. A
 *   `TerminalError` is reported at once, with its message. A reason that asks a person to act (`Warning`) of the same
 *   generation stays, and only its message grows. The status is written again only if the error is another. It is never
 *   written for a failure to write it.
 * - A refusal by the API server is reported and retried with the queue's backoff: by default from 5 ms, doubling, to
 *   one minute. The object recovers without intervention once the quota or the policy allows it.
 *
 * **Assumptions**
 * - The object is from the store and is not being deleted, or has a finalizer of this controller.
 * - Reconcilers do not use their own conditions as input; otherwise a retry would do nothing.
 *
 * @example
 * const reporter = new OutcomeReporter({
 *   kind: Shop, reasons, events,
 *   refused: (shop, { message }) => ({ reason: 'DeploymentRefused', message }),
 * });
 * const reconcile: Reconcile = async (key, context) => {
 *   const shop = shops.get(key);
 *   if (shop === undefined || shop.metadata.deletionTimestamp !== undefined) return done;
 *   // The annotation rejects a misspelt member.
 *   type ShopOutcome = Outcome<ReasonOf<typeof reasons>, ObjectOf<typeof Shop>>;
 *   return reporter.reconcile(shop, context, async (): Promise<ShopOutcome> => {
 *     const options = { client: context.client, store: deployments };
 *     const applied = await applier.apply(Deployment, deploymentOf(shop), options);
 *     const deployment = `Deployment ${shop.metadata.name}`;
 *     if (applied.type === 'nameTaken') return { reason: 'NameTaken', message: `${deployment} is not ours` };
 *     return { reason: 'Deployed', message: `${deployment} is as the spec asks` };
 *   });
 * };
 */
export class OutcomeReporter<T extends ReportingObject, R extends string> {
  readonly #options: OutcomeReporterOptions<T, R>;
  readonly #reasons: Reasons<R | ReasonOf<typeof commonReasons>>;
  readonly #unanswered = new UnansweredEvents();
  /** Errors that need no further report: the status already shows them, or a status write threw them. */
  readonly #reported = new WeakSet<object>();
  #hasWarnedOfDifference = false;

  constructor(options: OutcomeReporterOptions<T, R>) {
    this.#options = options;
    this.#reasons = { ...commonReasons, ...options.reasons };
  }

  /**
   * Runs `work` and reports its outcome. A refusal that `work` throws is converted to an outcome by `refused`.
   *
   * @param object or a function that returns it as the last write of `work` has left it.
   * @param work returns the outcome; or the result of a `report` or of `finalizer`, which is returned unchanged; or
   *   undefined to write no status, for example because the store is stale. Undefined becomes `done`: the next event
   *   enqueues the key.
   * @throws any error of `work`, except a refusal that `refused` converts; the errors of {@link report}.
   */
  async reconcile(
    object: T | (() => T),
    context: ReportingContext,
    work: () => Promise<Outcome<R, T> | Result | undefined>,
  ): Promise<Result> {
    const current = typeof object === 'function' ? object : () => object;
    this.#recordUnanswered(current(), context);
    const { priorFailures, signal } = context;
    if (priorFailures?.timeout !== undefined && this.#isPersistent(priorFailures, priorFailures.count)) {
      await this.#reportFailure(current(), priorFailures.timeout, context);
    }
    try {
      const outcome = (await work().catch((error: unknown) => this.#refused(current(), error))) ?? done;
      return isResult(outcome) ? outcome : await this.report(current(), outcome, context);
    } catch (error) {
      const shouldReport = isTerminal(error) || this.#isPersistent(priorFailures);
      if (shouldReport && signal?.aborted !== true) await this.#reportFailure(current(), error, context);
      throw error;
    }
  }

  /**
   * Reports an outcome. A deleted object is not an error.
   *
   * @returns the result for the reconcile to return.
   *
   * @throws
   * - `outcome.error`, unless it is a refusal.
   * - TerminalError for a reason or a condition that the kind cannot report.
   * - The error of the status write; `outcome.error` is then logged. A refused status write is the `cause` of an Error,
   *   so that `reconcile` does not report it.
   * - An Error if the installed CustomResourceDefinition has no status subresource.
   */
  async report(object: T, outcome: Outcome<R, T>, context: ReportingContext): Promise<Result> {
    const { error, requeueAfterMs } = outcome;
    const problem = this.#problemOf(outcome);
    if (problem !== undefined) throw new TerminalError(problem, error === undefined ? undefined : { cause: error });
    try {
      await this.#write(object, this.#withFailure(outcome, context), context);
    } catch (failure) {
      // Only one error can be thrown. A refusal occurs again in the retry, which then reports it.
      if (error !== undefined && !isRefusal(error)) {
        context.log.warn({ err: error }, 'reconcile failed, and its status could not be written');
      }
      const thrown = isRefusal(failure) ? refusedStatusWrite(this.#options.kind, object, failure) : failure;
      this.#markReported(thrown);
      throw thrown;
    }
    if (error === undefined) return requeueAfterMs === undefined ? done : requeueAfter(requeueAfterMs);
    if (isRefusal(error)) return retry(error);
    this.#markReported(error);
    throw error;
  }

  /** Finds errors that the compiler rejects, in case the program was not type-checked. A retry cannot fix them. */
  #problemOf({ reason, conditions = [] }: Outcome<R, T>): string | undefined {
    const { kind } = this.#options.kind;
    if (!Object.hasOwn(this.#reasons, reason))
      return (
        `the controller of ${kind} reports the reason ${JSON.stringify(reason)}, ` +
        'which its `reasons` do not declare'
      );
    const wrong = conditions.find(
      (each) => each.type === 'Ready' || !isConditionType(each.type) || !isReason(each.reason),
    );
    if (wrong === undefined) return undefined;
    const problem =
      wrong.type === 'Ready'
        ? 'which follows from the reason of the outcome'
        : `of the reason ${JSON.stringify(wrong.reason)}: ` +
          'the type is a qualified name, and the reason one CamelCase word';
    return `the controller of ${kind} reports a condition ${JSON.stringify(wrong.type)}, ${problem}`;
  }

  /** Records an Event and a log line for an action, such as recreating a child. Does not wait and never throws. */
  recordEvent(object: T, notice: Omit<EventNotice, 'action'>, { log }: Pick<ReconcileContext, 'log'>): void {
    const { kind, events } = this.#options;
    log.info({ reason: notice.reason }, cutText(notice.note));
    events.record(kind, object, { ...notice, action: 'Reconcile' });
  }

  /**
   * Records an Event if an apply created a child (`DeploymentCreated`) or changed it (`DeploymentChanged`, whose note
   * names the first corrected field). Call it with each result of {@link Applier.apply}. Does not wait and never
   * throws.
   *
   * The Event is `DeploymentRecreated` if `Ready` already has a reason of this generation without
   * {@link Reason.blocksCreation}. Most often somebody has deleted the child. A new version of the operator may also
   * have added it.
   */
  recordChild(object: T, child: Kind, applied: ApplyResult<KubeObject>, context: Pick<ReconcileContext, 'log'>): void {
    if (applied.type !== 'created' && applied.type !== 'applied') return;
    const childText = `${child.kind} ${applied.object.metadata.name}`;
    const [suffix, note] =
      applied.type === 'applied'
        ? ['Changed', `applied ${childText}, which differed from the spec in ${applied.difference}`]
        : this.hadChildren(object)
          ? ['Recreated', `created ${childText}, which was missing`]
          : ['Created', `created ${childText}`];
    this.recordEvent(object, { type: 'Normal', reason: `${child.kind}${suffix}`, note }, context);
  }

  /** Whether a reconcile of this generation has created the children, according to the status. */
  hadChildren(object: T): boolean {
    const { reason = '' } = currentReady(object) ?? {};
    const reasons: Readonly<Record<string, Reason | undefined>> = this.#options.reasons;
    return reasons[reason] !== undefined && reasons[reason].blocksCreation !== true;
  }

  #refused(object: T, error: unknown): Outcome<R, T> {
    const { refused } = this.#options;
    if (refused === undefined || !isRefusal(error)) throw error;
    return { ...refused(object, error), error };
  }

  /** Writes the status, and records the Events of the outcome. */
  async #write(object: T, outcome: AnyOutcome<R, T>, context: ReportingContext): Promise<void> {
    const { kind, keepsObservedGeneration } = this.#options;
    const desired = this.#desired(object, outcome);
    const { observedGeneration: _, ...withoutGeneration } = desired;
    const status = keepsObservedGeneration ? (withoutGeneration as typeof desired) : desired;
    context.client.trace?.reported(outcome.reason);
    // Repeat this here: the reporter may just have read the object, or `report` was called without `reconcile`.
    this.#recordUnanswered(object, context);
    const own = outcome.event === undefined ? [] : [outcome.event];
    const all = this.#shouldRecordEvent(object, outcome) ? [...own, this.#reasonNotice(outcome)] : own;
    try {
      const written = await patchStatusIfPresent(context.client, kind, object, status);
      if (written !== undefined) {
        this.#unanswered.forget(object);
        this.#warnOfDifference(written, status, context);
        context.written?.(written);
      }
      for (const notice of written !== undefined ? all : own) this.recordEvent(object, notice, context);
    } catch (error) {
      if (!wasNotWritten(error) && all.length > 0) {
        this.#unanswered.remember(object, all, findCondition(status.conditions ?? undefined, 'Ready'));
      }
      throw error;
    }
  }

  #desired(object: T, outcome: AnyOutcome<R, T>): DesiredStatus<NonNullable<T['status']>> {
    const isComplete = outcome.status !== undefined && outcome.conditions !== undefined;
    const observed = isComplete ? undefined : this.#options.observe?.(object);
    const { reason, message, status = observed?.status, conditions = observed?.conditions } = outcome;
    return desiredStatus(this.#reasons, object, { reason, message, status, conditions }, this.#now());
  }

  /**
   * Warns once. The API server silently drops members that the CustomResourceDefinition lacks, and each reconcile
   * writes them again.
   */
  #warnOfDifference(written: T, status: DesiredStatus<NonNullable<T['status']>>, { log }: ReportingContext): void {
    if (this.#hasWarnedOfDifference) return;
    const difference = statusPatch<NonNullable<T['status']>>(written.status, status);
    if (difference === undefined) return;
    this.#hasWarnedOfDifference = true;
    const details = { kind: this.#options.kind.kind, members: Object.keys(difference) };
    log.warn(details, 'the API server changed the written status: apply the current CustomResourceDefinition');
  }

  /** @param count how many reconciles have failed in a row. Default: the earlier ones and this one. */
  #isPersistent(prior: ReconcileContext['priorFailures'], count = (prior?.count ?? 0) + 1): boolean {
    return isPersistent(prior && { ...prior, count }, this.#now());
  }

  /** The outcome, with the reason `ReconcileFailed` if failures persist and its own reason does not name the error. */
  #withFailure(outcome: Outcome<R, T>, { priorFailures }: ReportingContext): AnyOutcome<R, T> {
    const { reason, message, error } = outcome;
    const statusNamesError = error === undefined || isRefusal(error) || this.#reasons[reason].event === 'Warning';
    if (statusNamesError || !this.#isPersistent(priorFailures)) return outcome;
    return { ...outcome, reason: 'ReconcileFailed', message: `${failureMessage(error, priorFailures)}; ${message}` };
  }

  /** Reports an error that no outcome names. If reporting fails, the next failure tries again. Never throws. */
  async #reportFailure(object: T, error: unknown, context: ReportingContext): Promise<void> {
    if (this.#isReported(error) || error instanceof GateClosedError || isNamespaceTerminating(error)) return;
    this.#markReported(error);
    const outcomeOf = (current: T): AnyOutcome<R, T> =>
      error instanceof UnreadableObjectError && error.object.metadata.uid === object.metadata.uid
        ? { reason: 'InvalidSpec', message: error.message }
        : this.#failureOutcome(current, failureMessage(error, context.priorFailures));
    if (statusPatch(object.status ?? {}, this.#desired(object, outcomeOf(object))) === undefined) return;
    try {
      // The reconcile may have changed the object before it failed.
      const current = await context.client.get(this.#options.kind, keyOf(object));
      const { uid, generation } = current.metadata;
      if (uid !== object.metadata.uid || generation !== object.metadata.generation) return;
      await this.#write(current, outcomeOf(current), context);
    } catch (failure) {
      context.log.debug({ err: failure }, 'the status could not report that reconciles fail');
    }
  }

  /** Keeps a reason that asks a person to act: it is more specific, and still true as far as is known. */
  #failureOutcome({ metadata, status }: T, failure: string): AnyOutcome<R, T> {
    const ready = findCondition(status?.conditions, 'Ready');
    if (ready === undefined || ready.observedGeneration !== metadata.generation || !this.#isWarning(ready.reason)) {
      return { reason: 'ReconcileFailed', message: failure };
    }
    return { reason: ready.reason, message: `${ready.message.split(besides)[0]}${besides}${failure}` };
  }

  /** Whether the reason belongs to this kind and asks a person to act. */
  #isWarning(reason: string): reason is R {
    const reasons: Reasons = this.#options.reasons;
    return Object.hasOwn(reasons, reason) && reasons[reason]?.event === 'Warning';
  }

  #now(): Date {
    return this.#options.now?.() ?? new Date();
  }

  #markReported(error: unknown): void {
    if (typeof error === 'object' && error !== null) this.#reported.add(error);
  }

  #isReported(error: unknown): boolean {
    return typeof error === 'object' && error !== null && this.#reported.has(error);
  }

  #shouldRecordEvent(object: T, { reason, message }: AnyOutcome<R, T>): boolean {
    const { recordsMessageChanges = false } = this.#reasons[reason];
    const before = findCondition(object.status?.conditions, 'Ready');
    return before?.reason !== reason || (recordsMessageChanges && before.message !== message);
  }

  #reasonNotice({ reason, message }: AnyOutcome<R, T>): Notice {
    return { type: this.#reasons[reason].event, reason, note: message };
  }

  /** Records the Events of a status write without a response, if the object shows that the write was stored. */
  #recordUnanswered(object: T, context: Pick<ReconcileContext, 'log'>): void {
    for (const notice of this.#unanswered.take(object)) this.recordEvent(object, notice, context);
  }
}

/** The Events of each object's last status write without a response. */
class UnansweredEvents {
  /** By uid, oldest first. */
  readonly #byUid = new Map<string, { readonly ready: Condition | undefined; readonly events: readonly Notice[] }>();

  /** @param ready the condition that the write would store */
  remember({ metadata }: KubeObject, events: readonly Notice[], ready: Condition | undefined): void {
    this.#byUid.delete(metadata.uid);
    const [oldest] = this.#byUid.keys();
    if (oldest !== undefined && this.#byUid.size >= maxUnanswered) this.#byUid.delete(oldest);
    this.#byUid.set(metadata.uid, { ready, events });
  }

  forget({ metadata }: KubeObject): void {
    this.#byUid.delete(metadata.uid);
  }

  /** Removes and returns the Events if the object shows that the write was stored. */
  take({ metadata, status }: ReportingObject): readonly Notice[] {
    const unanswered = this.#byUid.get(metadata.uid);
    if (unanswered === undefined) return [];
    if (!isDeepStrictEqual(findCondition(status?.conditions, 'Ready'), unanswered.ready)) return [];
    this.#byUid.delete(metadata.uid);
    return unanswered.events;
  }
}

const isResult = (value: Result | Outcome): value is Result => 'type' in value;

/** An outcome of the kind, or of the reporter. */
type AnyOutcome<R extends string, T extends ReportingObject> = Outcome<R | ReasonOf<typeof commonReasons>, T>;

/** Separates the message of a more specific reason from the message about failures in a row. */
const besides = '; besides, ';

/**
 * The error's type and code, without its message, which may quote a Secret. {@link summarizeError} documents what else
 * it contains. The message of a `TerminalError` is meant for users and is included.
 */
const failureMessage = (error: unknown, priorFailures: ReconcileContext['priorFailures']): string =>
  isTerminal(error) || priorFailures === undefined
    ? `the reconcile has failed and is not retried: ${
        error instanceof TerminalError ? error.message : summarizeError(error)
      }`
    : `reconciles have failed since ${priorFailures.since.toISOString()}: ${summarizeError(error)}`;

/** Limits the memory for objects that were deleted after a status write without a response. */
const maxUnanswered = 1000;

/**
 * Wraps the refusal, so that {@link OutcomeReporter.reconcile} does not convert it to an outcome and write another
 * status.
 */
const refusedStatusWrite = ({ kind }: Kind, { metadata }: KubeObject, refusal: ApiError): Error =>
  new Error(`the API server refuses the status of ${kind} ${keyString(metadata)}: ${refusal.message}`, {
    cause: refusal,
  });

/**
 * The status that an outcome asks for: `Ready` and the other conditions of the outcome, with the generation of the
 * object. Conditions that others set stay.
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
