import { ApiError } from '../client/api-error.ts';
import type { ClientRequest, RequestTrace } from '../client/client.ts';
import { summarizeError } from '../client/error-summary.ts';
import type { Kind } from '../kind/kind.ts';
import type { ObjectKey } from '../kind/object.ts';
import type { FailureKind, QueuedKey, ReconcileTrace, ResultLabel } from '../observer/operator-observer.ts';
import type { Cause } from '../queue/cause.ts';
import { patchedPaths } from '../shared/field-paths.ts';

/** How many differing fields of an apply are named. */
const maxPaths = 4;

/** How many requests and unchanged objects one record names; it counts the others. */
const maxSteps = 20;

/**
 * Longer texts of a record are cut, because users choose names, labels, field managers and the messages of webhooks. A
 * record takes at most 80 kB, and usually less than 1 kB.
 */
const maxTextLength = 500;

/** A request that a reconcile sent, or an object that a reconcile found as desired. */
export interface StepRecord {
  /** `unchanged`: nothing was sent. */
  readonly verb: ClientRequest['verb'] | 'unchanged';
  readonly kind: string;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  /** The fields that a patch sets, or that an apply corrects. */
  readonly paths: string | undefined;
  /** How long the request took. Undefined if it has no response yet, or had none when the reconcile ended. */
  readonly ms: number | undefined;
  /** The HTTP status of an error response; 200 for any success; 0 without a response. */
  readonly code: number;
}

/** One reconcile, or the last of several similar reconciles. Times are by `performance.now`. */
export interface ReconcileRecord {
  readonly startedAtMs: number;
  readonly cause: Cause | undefined;
  readonly furtherCauses: readonly Cause[];
  readonly furtherAdds: number;
  /** How long the key was in the queue. */
  readonly waitedMs: number;
  /** How many times the key had failed in a row before this reconcile. */
  readonly retries: number;
  readonly steps: readonly StepRecord[];
  /** Requests and unchanged objects beyond the limit of steps. */
  readonly furtherSteps: number;
  readonly requests: number;
  /** The reason of `Ready` that the reconcile reported. */
  readonly reason: string | undefined;
  readonly outcome: ResultLabel | undefined;
  readonly failure: FailureKind | undefined;
  /** A summary without the error's message. */
  readonly error: string | undefined;
  /** How long the reconcile took. Undefined while it runs. */
  readonly ms: number | undefined;
  readonly nextAtMs: number | undefined;
  /** How many reconciles this record stands for, and when the first one started. */
  readonly count: number;
  readonly firstStartedAtMs: number;
  readonly weight: Weight;
}

/** How much a reconcile explains. */
export const Weight = {
  /** The reconcile sent nothing; at most a status change triggered it. */
  minor: 0,
  /** The reconcile read or wrote a status, or a change of another field triggered it. */
  ordinary: 1,
  /** The reconcile changed more than a status, or failed. */
  acted: 2,
} as const;

export type Weight = (typeof Weight)[keyof typeof Weight];

/** A step of a running reconcile. */
export class RecordedStep implements StepRecord, RequestTrace {
  readonly verb: StepRecord['verb'];
  readonly kind: string;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  readonly paths: string | undefined;
  readonly sentAtMs: number;
  ms: number | undefined;
  code = 0;

  constructor(
    verb: StepRecord['verb'],
    kind: Kind,
    object: ObjectKey | undefined,
    sentAtMs: number,
    subresource?: string,
    paths?: string,
  ) {
    this.verb = verb;
    this.kind = kind.kind;
    this.name = cut(object?.name);
    this.subresource = subresource;
    this.paths = cut(paths);
    this.sentAtMs = sentAtMs;
  }

  responded(error: unknown): void {
    if (this.ms !== undefined) return;
    this.ms = performance.now() - this.sentAtMs;
    if (error === undefined) this.code = 200;
    else if (error instanceof ApiError) this.code = error.code;
  }
}

/** A running reconcile. */
export class RecordedReconcile implements ReconcileRecord, ReconcileTrace {
  readonly #onEnded: (record: ReconcileRecord) => void;
  readonly startedAtMs: number;
  readonly cause: Cause | undefined;
  readonly waitedMs: number;
  readonly furtherCauses: readonly Cause[];
  readonly furtherAdds: number;
  readonly retries: number;
  readonly steps: RecordedStep[] = [];
  furtherSteps = 0;
  /** The last step beyond the limit, which may be in flight. */
  lastFurtherStep: RecordedStep | undefined;
  requests = 0;
  /** Increases as the reconcile does more. */
  weight: Weight;
  /** The differing fields that the next apply corrects. */
  #differing: string | undefined;
  reason: string | undefined;
  outcome: ResultLabel | undefined;
  failure: FailureKind | undefined;
  error: string | undefined;
  ms: number | undefined;
  nextAtMs: number | undefined;

  constructor(
    startedAtMs: number,
    queued: QueuedKey | undefined,
    retries: number,
    onEnded: (record: ReconcileRecord) => void,
  ) {
    this.#onEnded = onEnded;
    this.startedAtMs = startedAtMs;
    this.cause = queued?.cause && cutCause(queued.cause);
    this.waitedMs = queued === undefined ? 0 : startedAtMs - queued.addedAtMs;
    this.furtherCauses = queued?.furtherCauses?.map(cutCause) ?? none;
    this.furtherAdds = queued?.furtherAdds ?? 0;
    this.retries = retries;
    this.weight = isNotable(this.cause) || this.furtherCauses.some(isNotable) ? Weight.ordinary : Weight.minor;
  }

  get count(): number {
    return 1;
  }

  get firstStartedAtMs(): number {
    return this.startedAtMs;
  }

  requested(request: ClientRequest, sentAtMs: number): RequestTrace {
    const { verb, kind, key, subresource, body } = request;
    this.requests += 1;
    if (subresource !== 'status' && verb !== 'get' && verb !== 'list') this.weight = Weight.acted;
    else if (this.weight === Weight.minor) this.weight = Weight.ordinary;
    const differing = verb === 'apply' ? this.#differing : undefined;
    this.#differing = undefined;
    const paths = verb === 'patch' && body !== undefined ? patchedPaths(body).join(', ') : differing;
    return this.#add(new RecordedStep(verb, kind, key, sentAtMs, subresource, paths));
  }

  unchanged(kind: Kind, object: ObjectKey): void {
    this.#add(new RecordedStep('unchanged', kind, object, 0));
  }

  differs(fields: readonly { readonly path: string }[]): void {
    const paths = fields.slice(0, maxPaths).map(({ path }) => safePath(path));
    this.#differing = `${paths.join(', ')}${fields.length > maxPaths ? ', …' : ''}`;
  }

  reported(reason: string): void {
    this.reason = cut(reason);
  }

  ended(
    outcome: ResultLabel,
    failure: FailureKind | undefined,
    error: unknown,
    { endedAtMs, nextAtMs }: { readonly endedAtMs: number; readonly nextAtMs: number | undefined },
  ): void {
    this.outcome = outcome;
    this.failure = failure;
    if (error !== undefined) {
      this.error = cut(summarizeError(error));
      this.weight = Weight.acted;
    }
    this.ms = endedAtMs - this.startedAtMs;
    this.nextAtMs = nextAtMs;
    this.#onEnded(this.#record());
  }

  /** Returns a copy, so that a response after the end of the reconcile changes nothing. */
  #record(): ReconcileRecord {
    const { startedAtMs, cause, furtherCauses, furtherAdds, waitedMs, retries, furtherSteps, requests } = this;
    const { reason, outcome, failure, error, ms, nextAtMs, count, firstStartedAtMs, weight } = this;
    const steps = this.steps.map(({ verb, kind, name, subresource, paths, ms: took, code }) => ({
      verb,
      kind,
      name,
      subresource,
      paths,
      ms: took,
      code,
    }));
    return {
      startedAtMs,
      cause,
      furtherCauses,
      furtherAdds,
      waitedMs,
      retries,
      steps,
      furtherSteps,
      requests,
      reason,
      outcome,
      failure,
      error,
      ms,
      nextAtMs,
      count,
      firstStartedAtMs,
      weight,
    };
  }

  #add(step: RecordedStep): RecordedStep {
    if (this.steps.length < maxSteps) this.steps.push(step);
    else {
      this.furtherSteps += 1;
      this.lastFurtherStep = step;
    }
    return step;
  }
}

const none: readonly Cause[] = [];

/** Cuts a long text and copies the result: a substring would keep the whole text in memory. */
const cut = <Text extends string | undefined>(text: Text): Text | string =>
  text === undefined || text.length <= maxTextLength
    ? text
    : Buffer.from(`${text.slice(0, maxTextLength)}…`).toString();

/** Returns the cause itself, which keys share, unless a text in it is too long. */
export const cutCause = (cause: Cause): Cause =>
  cause.type === 'delta' && [...cause.paths, cause.by ?? ''].some(({ length }) => length > maxTextLength)
    ? { ...cause, paths: cause.paths.map(cut), by: cut(cause.by) }
    : cause;

/** Whether a field other than the status has changed. A cause for an added or deleted object has no paths. */
const isNotable = (cause: Cause | undefined): boolean =>
  cause?.type === 'delta' && cause.paths.some((path) => !path.startsWith('status'));

/**
 * Removes possible values from an applier's path: the key that identifies a list item may be a value. Names of labels
 * and annotations stay. A key in brackets contains no bracket, because the applier escapes brackets.
 */
const safePath = (path: string): string =>
  /^\.metadata\.(labels|annotations)\[[\w./-]{1,317}\]$/.test(path)
    ? path.slice(1)
    : path.slice(1).replace(/\[[^\]]*\]/g, '[]');
