import { summarizeError } from '../client/error-summary.ts';
import { ApiError, type ClientRequest, type RequestTrace } from '../client/index.ts';
import type { Kind, ObjectKey } from '../kind/index.ts';
import type { QueuedKey, ReconcileTrace } from '../observer/operator-observer.ts';
import type { FailureKind, ResultLabel } from '../observer/reconcile-observer.ts';
import type { Cause } from '../queue/index.ts';
import { patchedPaths } from './field-paths.ts';

/** How many differing fields of an apply are named. */
const maxPaths = 4;

/** How many requests and unchanged objects one record names; it counts the others. */
export const maxSteps = 20;

/** A request that a reconcile sent, or an object that it found as desired. */
export interface StepRecord {
  /** `unchanged`: nothing was sent. */
  readonly verb: ClientRequest['verb'] | 'unchanged';
  readonly kind: string;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  /** The fields that a patch sets, or whose differences an apply removes. */
  readonly paths: string | undefined;
  /** How long the request took. Undefined if it had no response when the reconcile ended, or until now. */
  readonly ms: number | undefined;
  /** The HTTP status of an error response; 200 for any success; 0 without a response. */
  readonly code: number;
}

/** One reconcile, or the last of several alike. Times are by `performance.now`. */
export interface ReconcileRecord {
  readonly startedAtMs: number;
  readonly cause: Cause | undefined;
  readonly furtherCauses: readonly Cause[];
  readonly furtherAdds: number;
  /** How long the key was in the queue. */
  readonly waitedMs: number;
  /** How many times the key had failed in a row before. */
  readonly retries: number;
  readonly steps: readonly StepRecord[];
  /** Requests and unchanged objects beyond the limit of steps. */
  readonly furtherSteps: number;
  readonly requests: number;
  /** The reason of `Ready` that it reported. */
  readonly reason: string | undefined;
  readonly outcome: ResultLabel | undefined;
  readonly failure: FailureKind | undefined;
  /** A summary without the error's message. */
  readonly error: string | undefined;
  /** How long it took. Undefined while it runs. */
  readonly ms: number | undefined;
  readonly nextAtMs: number | undefined;
  /** How many reconciles this record stands for, and when the first one started. */
  readonly count: number;
  readonly firstStartedAtMs: number;
}

/** How much a reconcile explains. */
export const Weight = {
  /** It sent nothing, and no change of a field other than the status caused it. */
  dull: 0,
  /** It read or wrote a status, or such a change caused it. */
  ordinary: 1,
  /** It changed more than a status, or failed. */
  acted: 2,
} as const;

export type Weight = (typeof Weight)[keyof typeof Weight];

/** A step of a reconcile that runs. */
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
    this.name = object?.name;
    this.subresource = subresource;
    this.paths = paths;
    this.sentAtMs = sentAtMs;
  }

  answered(error: unknown): void {
    if (this.ms !== undefined) return;
    this.ms = performance.now() - this.sentAtMs;
    if (error === undefined) this.code = 200;
    else if (error instanceof ApiError) this.code = error.code;
  }
}

/** A reconcile that runs. */
export class RecordedReconcile implements ReconcileRecord, ReconcileTrace {
  readonly #onEnded: (ended: RecordedReconcile) => void;
  readonly startedAtMs: number;
  readonly cause: Cause | undefined;
  readonly waitedMs: number;
  readonly furtherCauses: readonly Cause[];
  readonly furtherAdds: number;
  readonly retries: number;
  readonly steps: RecordedStep[] = [];
  furtherSteps = 0;
  /** The last of them: it may be in flight. */
  lastFurtherStep: RecordedStep | undefined;
  requests = 0;
  /** Grows as the reconcile does more. */
  weight: Weight;
  /** The fields for whose differences the next apply is sent. */
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
    onEnded: (ended: RecordedReconcile) => void,
  ) {
    this.#onEnded = onEnded;
    this.startedAtMs = startedAtMs;
    this.cause = queued?.cause;
    this.waitedMs = queued === undefined ? 0 : startedAtMs - queued.addedAtMs;
    this.furtherCauses = queued?.furtherCauses ?? none;
    this.furtherAdds = queued?.furtherAdds ?? 0;
    this.retries = retries;
    this.weight = isNotable(this.cause) || this.furtherCauses.some(isNotable) ? Weight.ordinary : Weight.dull;
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
    else if (this.weight === Weight.dull) this.weight = Weight.ordinary;
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
    this.reason = reason;
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
      this.error = summarizeError(error);
      this.weight = Weight.acted;
    }
    this.ms = endedAtMs - this.startedAtMs;
    this.nextAtMs = nextAtMs;
    // An answer that comes before this is written is too late. NaN is read as undefined.
    for (const step of this.steps) step.ms ??= Number.NaN;
    this.#onEnded(this);
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

/** Whether a field other than the status has changed. An object that was added or deleted has no paths. */
const isNotable = (cause: Cause | undefined): boolean =>
  cause?.type === 'delta' && cause.paths.some((path) => !path.startsWith('status'));

/**
 * In the applier's paths, what names an item of a list may be a value. Labels and annotations have names. A key in brackets contains no
 * bracket: the applier escapes them.
 */
const safePath = (path: string): string =>
  /^\.metadata\.(labels|annotations)\[[\w./-]{1,317}\]$/.test(path)
    ? path.slice(1)
    : path.slice(1).replace(/\[[^\]]*\]/g, '[]');
