import type { Cause, Priority } from '../queue/index.ts';

/** Lets a reconcile leave the write of a status that only informs to a later one. */
export interface StatusDebounce {
  /**
   * Asks whether the write may wait. If it may, the key is enqueued again, and the reconcile must return without the write.
   *
   * @param isFirst the object has no status of its generation. Such a write waits only while other keys wait for their first reconcile.
   */
  mayWait(isFirst: boolean): boolean;
}

/** The debounce of one reconcile. */
export interface KeyDebounce extends StatusDebounce {
  /**
   * Call this when the reconcile has ended, before the worker returns the key.
   *
   * @param options.isRetried the reconcile has failed, and its retry does not start another wait.
   */
  end(options: { readonly isRetried: boolean }): void;
}

/** Why a key is enqueued whose status waited. */
export const debounce: Cause = { type: 'debounce' };

interface Wait {
  readonly dueAtMs: number;
  readonly timer: NodeJS.Timeout;
  isDue: boolean;
}

type Enqueue = (key: string, options: { readonly priority: Priority }, cause: Cause) => void;

/**
 * Decides for the keys of one controller which status writes wait. It buffers nothing: a later reconcile computes the status anew.
 *
 * A key waits from the first write that was put off until a reconcile without a failure writes, or finds nothing to write, and at most
 * `maxMs`. Then it is enqueued with high priority, so that a long queue does not delay it. Every wait ends with a reconcile, also if the
 * object is deleted.
 */
export class StatusDebouncer {
  readonly #maxMs: number;
  readonly #enqueue: Enqueue;
  readonly #waits = new Map<string, Wait>();
  /** The keys of {@link #waits} whose first status waits until no new object waits for its first reconcile. */
  readonly #firsts = new Set<string>();
  /** Keys of new objects that no worker has had. The queue holds each of them. */
  readonly #unreconciled = new Set<string>();
  #isClosed = false;

  /** @param enqueue adds a key to the queue */
  constructor(maxMs: number, enqueue: Enqueue) {
    this.#maxMs = maxMs;
    this.#enqueue = enqueue;
  }

  /** Call this when the key of a new object is enqueued. */
  added(key: string): void {
    if (!this.#isClosed) this.#unreconciled.add(key);
  }

  /** Call this when a worker has the key. */
  dequeued(key: string): void {
    if (this.#unreconciled.delete(key) && this.#unreconciled.size === 0) this.#enqueueFirsts();
  }

  /** How many keys wait, without those that are due. */
  get size(): number {
    return [...this.#waits.values()].filter(({ isDue }) => !isDue).length;
  }

  /** When the key is enqueued because its status has waited long enough, by `performance.now`. Undefined: never, or it was already. */
  dueAtMs(key: string): number | undefined {
    const wait = this.#waits.get(key);
    return wait?.isDue === false ? wait.dueAtMs : undefined;
  }

  start(key: string): KeyDebounce {
    const wait = this.#waits.get(key);
    const dueAtMs = wait?.dueAtMs ?? performance.now() + this.#maxMs;
    let waits: 'first' | 'later' | undefined;
    return {
      mayWait: (isFirst) => {
        // A timer may fire within the millisecond before it is due, or late.
        if (this.#isClosed || wait?.isDue === true || performance.now() >= dueAtMs) return false;
        if (isFirst && this.#unreconciled.size === 0) return false;
        waits = isFirst ? 'first' : 'later';
        return true;
      },
      end: ({ isRetried }) => {
        if (waits === undefined) {
          if (!isRetried) this.#forget(key);
          return;
        }
        this.#wait(key, dueAtMs);
        if (waits === 'later') return;
        this.#firsts.add(key);
        // The last new object may have got its worker during this reconcile.
        if (this.#unreconciled.size === 0) this.#enqueueFirsts();
      },
    };
  }

  /** Ends every wait without a reconcile, as the queue drops its keys. Reconciles that still run write at once. */
  close(): void {
    this.#isClosed = true;
    for (const key of [...this.#waits.keys()]) this.#forget(key);
    this.#unreconciled.clear();
  }

  #wait(key: string, dueAtMs: number): void {
    if (this.#isClosed || this.#waits.has(key)) return;
    const timer = setTimeout(
      () => {
        wait.isDue = true;
        this.#enqueue(key, { priority: 'high' }, debounce);
      },
      Math.max(dueAtMs - performance.now(), 0),
    );
    const wait: Wait = { dueAtMs, timer, isDue: false };
    this.#waits.set(key, wait);
  }

  #forget(key: string): void {
    clearTimeout(this.#waits.get(key)?.timer);
    this.#waits.delete(key);
    this.#firsts.delete(key);
  }

  #enqueueFirsts(): void {
    for (const key of this.#firsts) this.#enqueue(key, { priority: 'low' }, debounce);
    this.#firsts.clear();
  }
}
