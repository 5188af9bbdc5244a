import type { Cause } from './cause.ts';
import { type Linked, LinkedList } from './linked-list.ts';

/**
 * How urgent a key is. `low` is for keys of a list or a resync: they yield to live changes, but are not starved.
 */
export type Priority = 'normal' | 'low';

/** A key in the queue. */
export class WaitingKey implements Linked<WaitingKey> {
  readonly key: string;
  priority: Priority;
  /** By performance.now. */
  readonly addedAtMs: number;
  /** Why it was added first, or why it was deferred. */
  cause: Cause | undefined;
  /** Why it was added again while it waited, as far as the causes differ. */
  furtherCauses: readonly Cause[] | undefined;
  /** How many times it was added again while it waited. */
  furtherAdds = 0;
  /** When the earliest event came that no reconcile of the key has followed, by `performance.now`. */
  eventAtMs: number | undefined;
  previous: WaitingKey | undefined;
  next: WaitingKey | undefined;

  constructor(
    key: string,
    priority: Priority,
    addedAtMs: number,
    cause: Cause | undefined,
    eventAtMs: number | undefined,
  ) {
    this.key = key;
    this.priority = priority;
    this.addedAtMs = addedAtMs;
    this.cause = cause;
    this.eventAtMs = eventAtMs;
  }
}

/** The waiting keys of one namespace. */
class NamespaceKeys implements Linked<NamespaceKeys> {
  readonly waiting = new LinkedList<WaitingKey>();
  previous: NamespaceKeys | undefined;
  next: NamespaceKeys | undefined;
}

/**
 * First in, first out within a namespace, and round-robin between namespaces: a namespace with many keys does not delay
 * the others. All operations are O(1).
 */
export class FairQueue {
  readonly #namespaces = new Map<string, NamespaceKeys>();
  /** The namespaces with waiting keys, in round-robin order. */
  readonly #rotation = new LinkedList<NamespaceKeys>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(waiting: WaitingKey): void {
    const namespace = namespaceOf(waiting.key);
    let keys = this.#namespaces.get(namespace);
    if (keys === undefined) {
      keys = new NamespaceKeys();
      this.#namespaces.set(namespace, keys);
      this.#rotation.push(keys);
    }
    keys.waiting.push(waiting);
    this.#size += 1;
  }

  /** Removes and returns the next key. */
  shift(): WaitingKey | undefined {
    const keys = this.#rotation.first;
    const waiting = keys?.waiting.first;
    if (keys === undefined || waiting === undefined) return undefined;
    this.#rotation.remove(keys);
    this.#rotation.push(keys);
    this.#remove(waiting, keys);
    return waiting;
  }

  /** Removes a key from any position. */
  delete(waiting: WaitingKey): void {
    const keys = this.#namespaces.get(namespaceOf(waiting.key));
    if (keys !== undefined) this.#remove(waiting, keys);
  }

  #remove(waiting: WaitingKey, keys: NamespaceKeys): void {
    keys.waiting.remove(waiting);
    this.#size -= 1;
    if (keys.waiting.first !== undefined) return;
    this.#rotation.remove(keys);
    this.#namespaces.delete(namespaceOf(waiting.key));
  }
}

/** Cluster-scoped objects share the namespace `''`. */
const namespaceOf = (key: string): string => key.slice(0, Math.max(key.indexOf('/'), 0));
