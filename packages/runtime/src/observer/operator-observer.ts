import type { ClientTrace } from '../client/client.ts';
import type { Kind } from '../kind/kind.ts';
import type { ObjectKey } from '../kind/object.ts';
import type { Cause } from '../queue/cause.ts';
import type { KeyState } from '../queue/work-queue.ts';

/** The label `result` of a reconcile, as controller-runtime names it. */
export type ResultLabel = 'success' | 'error' | 'requeue_after';

/**
 * Why a reconcile failed. `terminal`: its error is not retried. `panic`: it threw a value that indicates a defect (a
 * TypeError, ReferenceError, RangeError, or not an Error), which would be a panic in Go. `timeout`: it exceeded its
 * time limit.
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
  /** The other causes for which the key was added while it waited, without duplicates. */
  readonly furtherCauses: readonly Cause[] | undefined;
  /** How many times the key was added again while it waited. */
  readonly furtherAdds: number;
}

/** The current state of a key in a controller. Times are by `performance.now`. */
export interface ControllerKeyState extends KeyState {
  readonly isInScope: boolean;
  readonly isCached: boolean;
  /** Whether the controller's predicate rejects even the `added` delta of the object. */
  readonly isFiltered: boolean;
}

/** A key that is being reconciled. */
export interface UnfinishedKey {
  readonly key: ObjectKey;
  /** Since when it has been in the queue, by `performance.now`. */
  readonly sinceMs: number;
}

/** A controller, as an observer sees it. */
export interface ObservedController {
  readonly name: string;
  readonly kind: Kind;
  /** The name of the function that is the predicate of the controller's own kind. The name may be empty. */
  readonly predicate: string | undefined;
  /** Do not call this on a hot path. */
  stateOf(key: ObjectKey): ControllerKeyState;
  /**
   * The keys that are being reconciled, including keys whose last request has no response yet. Do not call this on a
   * hot path.
   */
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
  /**
   * The predicate of the controller's own kind has rejected a change of more than the status. `cause.paths` names the
   * changed fields.
   */
  filtered(key: string, cause: Cause): void;
  /** A reconcile starts. @param retries how many times the key has failed in a row before. */
  started(key: string, startedAtMs: number, queued: QueuedKey | undefined, retries: number): ReconcileTrace;
}

/**
 * Observes every reconcile of an operator: why it ran, what it sent, and how it ended. Without an observer nothing is
 * collected.
 *
 * All calls are synchronous and must not throw. They are on the hot path: keep references to strings, not objects,
 * which would keep specs and Secrets alive.
 */
export interface OperatorObserver {
  controller(controller: ObservedController): ControllerObserver;
  controllerRemoved(name: string): void;
}
