import { ApiError, type ClientRequest } from '../client/index.ts';
import type { Kind, ObjectKey } from '../kind/index.ts';
import type { Cause, DeltaCause } from '../queue/index.ts';
import type { Linked } from '../queue/linked-list.ts';
import { summarizeError } from './error-summary.ts';
import { patchedPaths } from './field-paths.ts';
import type { FailureKind, ResultLabel } from './metrics.ts';
import type { QueuedKey, ReconcileTrace, RequestTrace } from './observer.ts';

/** How many reconciles of a key are kept. */
const keptReconciles = 5;

/** How many differing fields of an apply are named. */
const maxPaths = 4;

/** How many requests and unchanged objects one record names; it counts the others. */
const maxSteps = 20;

/** Estimates of what a record takes in V8's heap, on the safe side. A unit test measures that they suffice. */
const keyBytes = 416;
const reconcileBytes = 336;
const stepBytes = 144;
const observedBytes = 72;
const textBytes = 24;

/** A request that a reconcile sent, or an object that it found as desired. Times are by `performance.now`. */
export class RecordedStep implements RequestTrace {
  /** `unchanged`: nothing was sent. */
  readonly verb: ClientRequest['verb'] | 'unchanged';
  readonly kind: string;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  /** The fields that a patch sets, or whose differences an apply removes. */
  readonly paths: string | undefined;
  readonly sentAtMs: number;
  /** Undefined while the request has no response. */
  endedAtMs: number | undefined;
  /** The HTTP status of an error response; 200 for any success; 0 without a response. */
  code = 0;

  constructor(
    verb: ClientRequest['verb'] | 'unchanged',
    kind: Kind,
    object: ObjectKey | undefined,
    {
      subresource,
      paths,
      sentAtMs,
    }: { readonly subresource?: string | undefined; readonly paths?: string | undefined; readonly sentAtMs: number },
  ) {
    this.verb = verb;
    this.kind = kind.kind;
    this.name = object?.name;
    this.subresource = subresource;
    this.paths = paths;
    this.sentAtMs = sentAtMs;
  }

  answered(error: unknown): void {
    this.endedAtMs = performance.now();
    if (error === undefined) this.code = 200;
    else if (error instanceof ApiError) this.code = error.code;
  }

  /** An estimate of the memory that this step takes. */
  get bytes(): number {
    return stepBytes + textBytesOf(this.name) + textBytesOf(this.paths);
  }

  /** Whether another step differs only in its times. */
  isLike({ verb, kind, name, subresource, paths, code }: RecordedStep): boolean {
    return (
      this.verb === verb &&
      this.kind === kind &&
      this.name === name &&
      this.subresource === subresource &&
      this.paths === paths &&
      this.code === code
    );
  }
}

/** One reconcile, or the last of several alike. Times are by `performance.now`. */
export class RecordedReconcile implements ReconcileTrace {
  readonly #key: RecordedKey;
  readonly startedAtMs: number;
  readonly cause: Cause | undefined;
  readonly waitedMs: number;
  readonly furtherCauses: readonly Cause[];
  readonly furtherAdds: number;
  /** How many times the key had failed in a row before. */
  readonly retries: number;
  steps: RecordedStep[] | undefined;
  /** Requests and unchanged objects beyond the limit of steps. */
  furtherSteps = 0;
  /** The last of them, while the reconcile runs: it may be in flight. */
  lastFurtherStep: RecordedStep | undefined;
  requests = 0;
  /** The fields for whose differences the next apply is sent. */
  #differing: string | undefined;
  /** The reason of `Ready` that it reported. */
  reason: string | undefined;
  outcome: ResultLabel | undefined;
  failure: FailureKind | undefined;
  /** A summary without the error's message. */
  error: string | undefined;
  endedAtMs: number | undefined;
  nextAtMs: number | undefined;
  /** How many reconciles this record stands for, and when the first one started. */
  count = 1;
  firstStartedAtMs: number;
  /** How many of its bytes its key has counted. */
  countedBytes: number;

  constructor(key: RecordedKey, startedAtMs: number, queued: QueuedKey | undefined, retries: number) {
    this.#key = key;
    this.startedAtMs = startedAtMs;
    this.firstStartedAtMs = startedAtMs;
    this.cause = queued?.cause;
    this.waitedMs = queued === undefined ? 0 : startedAtMs - queued.addedAtMs;
    this.furtherCauses = queued?.furtherCauses ?? none;
    this.furtherAdds = queued?.furtherAdds ?? 0;
    this.retries = retries;
    this.countedBytes = this.bytes;
  }

  requested(request: ClientRequest, sentAtMs: number): RequestTrace {
    const { verb, kind, key, subresource, patch } = request;
    this.requests += 1;
    const differing = verb === 'apply' ? this.#differing : undefined;
    this.#differing = undefined;
    const paths = patch === undefined ? differing : patchedPaths(patch).join(', ');
    return this.#add(new RecordedStep(verb, kind, key, { subresource, paths, sentAtMs }));
  }

  unchanged(kind: Kind, object: ObjectKey): void {
    this.#add(new RecordedStep('unchanged', kind, object, { sentAtMs: 0 }));
  }

  differs(fields: readonly { readonly path: string }[]): void {
    const paths = fields.slice(0, maxPaths).map(({ path }) => safePath(path));
    this.#differing = `${paths.join(', ')}${fields.length > maxPaths ? ', …' : ''}`;
  }

  reported(reason: string): void {
    this.reason = reason;
    this.#key.lastReason = reason;
  }

  ended(
    outcome: ResultLabel,
    failure: FailureKind | undefined,
    error: unknown,
    { endedAtMs, nextAtMs }: { readonly endedAtMs: number; readonly nextAtMs: number | undefined },
  ): void {
    this.outcome = outcome;
    this.failure = failure;
    if (error !== undefined) this.error = summarizeError(error);
    this.endedAtMs = endedAtMs;
    this.nextAtMs = nextAtMs;
    // A copy has no room for further steps, which takes as much memory as a record.
    this.steps = this.steps?.slice();
    this.lastFurtherStep = undefined;
    this.#key.ended(this);
  }

  /** An estimate of the memory that this record takes. */
  get bytes(): number {
    let bytes = reconcileBytes + textBytesOf(this.error) + causeBytesOf(this.cause);
    for (const cause of this.furtherCauses) bytes += causeBytesOf(cause);
    for (const step of this.steps ?? []) bytes += step.bytes;
    return bytes;
  }

  /** Whether it sent nothing and did not fail. */
  get isQuiet(): boolean {
    return this.requests === 0 && this.error === undefined;
  }

  /** Whether it sent nothing, did not fail, and no change of more than a status caused it. */
  get isDull(): boolean {
    const causes = [this.cause, ...this.furtherCauses];
    return this.isQuiet && !causes.some((cause) => cause?.type === 'delta' && !isOnlyStatus(cause));
  }

  /** Whether another reconcile differs from this one only in its times. */
  isLike(other: RecordedReconcile): boolean {
    const { steps = [], furtherSteps, requests } = this;
    return (
      isSameCause(this.cause, other.cause) &&
      this.furtherCauses.length === other.furtherCauses.length &&
      this.furtherCauses.every((cause, index) => isSameCause(cause, other.furtherCauses[index])) &&
      this.outcome === other.outcome &&
      this.reason === other.reason &&
      this.error === other.error &&
      requests === other.requests &&
      furtherSteps === other.furtherSteps &&
      steps.length === (other.steps?.length ?? 0) &&
      steps.every((step, index) => other.steps?.[index]?.isLike(step))
    );
  }

  /** Makes this record stand for an earlier one too. */
  absorb({ count, firstStartedAtMs }: RecordedReconcile): void {
    this.count += count;
    this.firstStartedAtMs = firstStartedAtMs;
  }

  #add(step: RecordedStep): RecordedStep {
    // The size of a record that has ended is counted: a request that outlives its reconcile does not change it.
    if (this.endedAtMs !== undefined) this.furtherSteps += 1;
    else if (this.steps?.length === maxSteps) {
      this.furtherSteps += 1;
      this.lastFurtherStep = step;
    } else {
      if (this.steps === undefined) this.steps = [step];
      else this.steps.push(step);
      this.countedBytes += step.bytes;
      this.#key.resized(step.bytes);
    }
    return step;
  }
}

/** What is recorded of one key. */
export class RecordedKey implements Linked<RecordedKey> {
  readonly key: string;
  readonly keys: Map<string, RecordedKey>;
  readonly #resized: (recorded: RecordedKey, bytes: number) => void;
  /** Oldest first. */
  readonly reconciles: RecordedReconcile[] = [];
  running: RecordedReconcile | undefined;
  /** How many reconciles have ended since the first that was recorded. */
  total = 0;
  /** The reason of `Ready` that was reported last. */
  lastReason: string | undefined;
  /** The last change that the controller's predicate dropped, and when. */
  filtered: Cause | undefined;
  filteredAtMs = 0;
  bytes: number;
  previous: RecordedKey | undefined;
  next: RecordedKey | undefined;

  constructor(key: string, keys: Map<string, RecordedKey>, resized: (recorded: RecordedKey, bytes: number) => void) {
    this.key = key;
    this.keys = keys;
    this.#resized = resized;
    this.bytes = keyBytes + key.length;
  }

  /** The reconcile that runs has grown. */
  resized(bytes: number): void {
    this.#resized(this, bytes);
  }

  ended(reconcile: RecordedReconcile): void {
    this.running = undefined;
    this.total += 1;
    const { countedBytes } = reconcile;
    const alike = this.reconciles.findIndex((each) => each.isLike(reconcile));
    if (alike !== -1) {
      const [earlier = reconcile] = this.reconciles.splice(alike, 1);
      reconcile.absorb(earlier);
      this.reconciles.push(reconcile);
      this.#resized(this, -countedBytes);
      return;
    }
    this.reconciles.push(reconcile);
    const dropped = this.reconciles.length > keptReconciles ? this.#drop() : 0;
    this.#resized(this, reconcile.bytes - countedBytes - dropped);
  }

  /**
   * Drops the oldest dull reconcile, or else the oldest, but not the last. A reconcile that wrote explains more than those that its events
   * caused. Returns the freed bytes.
   */
  #drop(): number {
    const quiet = this.reconciles.findIndex(({ isDull }) => isDull);
    const index = quiet === -1 || quiet === this.reconciles.length - 1 ? 0 : quiet;
    const [dropped] = this.reconciles.splice(index, 1);
    return dropped?.bytes ?? 0;
  }
}

const none: readonly Cause[] = [];

/** Most such changes are the operator's own. An object that was added or deleted has no paths. */
export const isOnlyStatus = ({ paths }: DeltaCause): boolean => paths.every((path) => path.startsWith('status'));

/** Causes of events are shared, but not for ever. */
function isSameCause(cause: Cause | undefined, other: Cause | undefined): boolean {
  if (cause === other) return true;
  if (cause?.type !== 'observed' || other?.type !== 'observed') return false;
  return cause.how === other.how && cause.kind === other.kind && isSameCause(cause.before, other.before);
}

const textBytesOf = (text: string | undefined): number => (text === undefined ? 0 : textBytes + text.length);

/** Counts a shared cause once for each record: more than it takes. */
export function causeBytesOf(cause: Cause | undefined): number {
  if (cause?.type === 'observed') return observedBytes + causeBytesOf(cause.before);
  if (cause?.type !== 'delta') return 0;
  return textBytesOf(cause.by) + cause.paths.reduce((bytes, path) => bytes + textBytesOf(path), 0);
}

/**
 * In the applier's paths, what names an item of a list may be a value. Labels and annotations have names. A key in brackets contains no
 * bracket: the applier escapes them.
 */
const safePath = (path: string): string =>
  /^\.metadata\.(labels|annotations)\[[\w./-]{1,317}\]$/.test(path)
    ? path.slice(1)
    : path.slice(1).replace(/\[[^\]]*\]/g, '[]');
