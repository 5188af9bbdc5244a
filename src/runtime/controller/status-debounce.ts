import type { WorkQueue } from '../queue/index.ts';

/** Lets a reconcile leave the write of a status that only informs to a later one. */
export interface StatusDebounce {
  /**
   * Asks whether the write may wait. If it may, the key is enqueued again, and the reconcile must return without the write.
   *
   * @param isFirst the object has no status of its generation. Such a write waits only while other keys wait for their first reconcile.
   */
  mayWait(isFirst: boolean): boolean;
}

/**
 * Decides for the keys of one controller which status writes wait. It buffers nothing: a later reconcile computes the status anew.
 *
 * A key waits from the first write that was put off until a reconcile writes, or finds nothing to write, and at most `maxMs`. Then it is
 * enqueued with high priority, so that a long queue does not delay it.
 */
export class StatusDebouncer {
  readonly #maxMs: number;
  readonly #queue: Pick<WorkQueue, 'add' | 'addAfter'>;
  /** By key: when its write was first put off, by `performance.now`. */
  readonly #sinceMs = new Map<string, number>();
  /** Keys of new objects that no worker has had. The queue holds each of them. */
  readonly #unreconciled = new Set<string>();

  constructor(maxMs: number, queue: Pick<WorkQueue, 'add' | 'addAfter'>) {
    this.#maxMs = maxMs;
    this.#queue = queue;
  }

  /** The key of a new object was enqueued. */
  added(key: string): void {
    this.#unreconciled.add(key);
  }

  /** A worker has the key. */
  dequeued(key: string): void {
    this.#unreconciled.delete(key);
  }

  /** Starts a reconcile of the key. Call {@link KeyDebounce.end} when it has ended, before the worker returns the key. */
  start(key: string): KeyDebounce {
    const startedAtMs = performance.now();
    const sinceMs = this.#sinceMs.get(key) ?? startedAtMs;
    const dueMs = sinceMs + this.#maxMs;
    let waits: 'first' | 'later' | undefined;
    return {
      mayWait: (isFirst) => {
        if (performance.now() >= dueMs || (isFirst && this.#unreconciled.size === 0)) return false;
        waits = isFirst ? 'first' : 'later';
        return true;
      },
      end: ({ isRetried }) => {
        if (waits === undefined) {
          // A retry does not start another wait.
          if (!isRetried) this.#sinceMs.delete(key);
          return;
        }
        this.#sinceMs.set(key, sinceMs);
        // It gets a worker when no new object waits for one.
        if (waits === 'first') this.#queue.add(key, { priority: 'low' }, debounce);
        this.#queue.addAfter(key, Math.max(dueMs - performance.now(), 0), { priority: 'high' }, debounce);
      },
    };
  }
}

/** The debounce of one reconcile. */
export interface KeyDebounce extends StatusDebounce {
  /** @param options.isRetried the reconcile has failed and comes again. */
  end(options: { readonly isRetried: boolean }): void;
}

const debounce = { type: 'debounce' } as const;
