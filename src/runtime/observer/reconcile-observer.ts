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
