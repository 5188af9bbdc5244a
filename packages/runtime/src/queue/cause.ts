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
  /** The field manager that made the change; several if they wrote within the same second. Undefined: not known. */
  readonly by: string | undefined;
}

/**
 * A reason without details. `takeover`: this process began to lead with filled caches.
 * `missed`: a change of another client may have enqueued nobody. `overwrite`: another client overwrites what the key writes, and its
 * correction waits.
 */
export interface PlainCause {
  readonly type: 'requeue' | 'retry' | 'resync' | 'source' | 'missed' | 'takeover' | 'overwrite';
}

/** Why a key is in the queue. Many keys share one object, so that a cause costs no memory. */
export type Cause = DeltaCause | PlainCause;

/** How many causes of one key are kept. */
const maxCauses = 4;

/** Adds a cause, unless it is there already or too many are. */
export const withCause = (causes: readonly Cause[], cause: Cause): readonly Cause[] =>
  causes.length === maxCauses || causes.includes(cause) ? causes : [...causes, cause];
