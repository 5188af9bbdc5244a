/** A change of an object that enqueued a key. */
export interface DeltaCause {
  readonly type: 'delta';
  /** The kind of the changed object, which may be a child. */
  readonly kind: string;
  readonly change: 'added' | 'modified' | 'deleted';
  /** Whether a list or a watch showed the change. */
  readonly origin: 'list' | 'watch';
  /** The fields of a modified object that differ: `spec.replicas`. Never values. */
  readonly paths: readonly string[];
  /** The field manager that made the change; several if they wrote within the same second. Undefined: not known. */
  readonly by: string | undefined;
}

/** The key was deferred and may run. */
export interface ObservedCause {
  readonly type: 'observed';
  /**
   * Why the key may run: the caches have observed its writes (`observed`), its requests have responses (`answered`), the cache was reset
   * (`reset`), or the kind is unavailable (`gaveUp`).
   */
  readonly how: 'observed' | 'answered' | 'reset' | 'gaveUp';
  /** The kind whose cache the key waited for last. Undefined if `how` is `answered`. */
  readonly kind: string | undefined;
  /** When the key was deferred, by `performance.now`. */
  readonly deferredAtMs: number;
  /** Why the key was in the queue when it was deferred. */
  readonly before: Cause | undefined;
}

/**
 * A reason without details. `takeover`: this process began to lead with filled caches. `debounce`: the write of a status was put off.
 */
export interface PlainCause {
  readonly type: 'requeue' | 'retry' | 'resync' | 'source' | 'relist' | 'takeover' | 'debounce';
}

/** Why a key is in the queue. Many keys share one object, so that a cause costs no memory. */
export type Cause = DeltaCause | ObservedCause | PlainCause;

/** How many causes of one key are kept. */
export const maxCauses = 4;

/** Adds a cause, unless it is there already or too many are. */
export const withCause = (causes: readonly Cause[], cause: Cause): readonly Cause[] =>
  causes.length === maxCauses || causes.includes(cause) ? causes : [...causes, cause];
