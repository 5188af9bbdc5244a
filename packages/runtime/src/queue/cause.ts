/** A change of an object that enqueued a key. */
export interface DeltaCause {
  readonly type: 'delta';
  /** The kind of the changed object, which may be a child. */
  readonly kind: string;
  readonly change: 'added' | 'modified' | 'deleted';
  /** What showed the change: a list, a watch, or the response to a request of a reconcile. */
  readonly origin: 'list' | 'watch' | 'response';
  /** The fields of a modified object that differ: `spec.replicas`. Never values. */
  readonly paths: readonly string[];
  /** The field manager that made the change, or several if they wrote within the same second. Undefined: unknown. */
  readonly by: string | undefined;
}

/**
 * A cause without details. `takeover`: this process became leader with filled caches. `missed`: another client's change
 * may have enqueued no key. `overwrite`: another client overwrites what the key writes, and the correction was
 * postponed.
 */
export interface PlainCause {
  readonly type: 'requeue' | 'retry' | 'resync' | 'source' | 'missed' | 'takeover' | 'overwrite';
}

/** Why a key is in the queue. Many keys share one cause object, to save memory. */
export type Cause = DeltaCause | PlainCause;

/** How many causes are kept per key. */
const maxCauses = 4;

/** Adds a cause, unless it is a duplicate or the limit is reached. */
export const withCause = (causes: readonly Cause[], cause: Cause): readonly Cause[] =>
  causes.length === maxCauses || causes.includes(cause) ? causes : [...causes, cause];
