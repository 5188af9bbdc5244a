import type { ClientTrace } from '../client/client.ts';
import type { Kind } from '../kind/kind.ts';
import type { ObjectKey } from '../kind/object.ts';
import type { Cause } from '../queue/cause.ts';
import type { KeyState } from '../queue/work-queue.ts';

/** The label `result` of a reconcile, as controller-runtime names it. */
export type ResultLabel = 'success' | 'error' | 'requeue_after';

/**
 * Why a reconcile failed: `terminal`, its error is not retried; `panic`, it threw a value that indicates a defect (a
 * TypeError, ReferenceError, RangeError, or not an Error), which would be a panic in Go; `timeout`, it exceeded its time
 * limit.
 */
export type FailureKind = 'terminal' | 'panic' | 'timeout';

/** Receives the start and the end of each reconcile of a controller. */
export interface ReconcileObserver {
  started(): void;
  /** @param failure only with the outcome `error`; undefined for an ordinary error. */
  finished(outcome: ResultLabel, seconds: number, failure?: FailureKind): void;
  /** A reconcile has ended that followed an event of a watch. @param seconds since the earliest such event. */
  followedEvent?(seconds: number): void;
}

/** Why a reconcile ran, and since when its key was in the queue. */
export interface QueuedKey {
  readonly cause: Cause | undefined;
  /** By `performance.now`. */
  readonly addedAtMs: number;
  /** Why the key was added again while it waited, as far as the causes differ. */
  readonly furtherCauses: readonly Cause[] | undefined;
  /** How many times the key was added again while it waited. */
  readonly furtherAdds: number;
}

/** What a controller knows of a key now. Times are by `performance.now`. */
export interface ControllerKeyState extends KeyState {
  readonly isInScope: boolean;
  readonly isCached: boolean;
  /** The controller's predicate drops the object even as a new one. */
  readonly isFiltered: boolean;
}

/** A key that is reconciled now. */
export interface UnfinishedKey {
  readonly key: ObjectKey;
  /** Since when it has been in the queue, by `performance.now`. */
  readonly sinceMs: number;
}

/** A controller, as an observer sees it. */
export interface ObservedController {
  readonly name: string;
  readonly kind: Kind;
  /** The name of the function that is the predicate of its own kind, which may be empty. */
  readonly predicate: string | undefined;
  /** Not for the hot path. */
  stateOf(key: ObjectKey): ControllerKeyState;
  /** The keys that are reconciled now, also those whose last request has no response. Not for the hot path. */
  unfinished(): readonly UnfinishedKey[];
}

/** Observes one reconcile. */
export interface ReconcileTrace extends ClientTrace {
  /**
   * The reconcile has ended.
   *
   * @param times by `performance.now`; `nextAtMs` is when the key's retry, requeue or status write is due.
   */
  ended(
    outcome: ResultLabel,
    failure: FailureKind | undefined,
    error: unknown,
    times: { readonly endedAtMs: number; readonly nextAtMs: number | undefined },
  ): void;
}

/** Observes one controller. */
export interface ControllerObserver {
  /** The predicate of the controller's own kind has dropped a change of more than the status. `cause.paths` says what changed. */
  filtered(key: string, cause: Cause): void;
  /** A reconcile starts. @param retries how many times the key has failed in a row before. */
  started(key: string, startedAtMs: number, queued: QueuedKey | undefined, retries: number): ReconcileTrace;
}

/**
 * Observes every reconcile of an operator: why it ran, what it sent, and how it ended. Without an observer nothing is
 * collected.
 *
 * All calls are synchronous and must not throw. They are on the hot path: keep references to strings, not objects, which
 * would keep specs and Secrets alive.
 */
export interface OperatorObserver {
  controller(controller: ObservedController): ControllerObserver;
  controllerRemoved(name: string): void;
}
