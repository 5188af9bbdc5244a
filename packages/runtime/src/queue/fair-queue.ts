import type { Cause } from './cause.ts';
import { type Linked, LinkedList } from './linked-list.ts';

/** How urgent a key is. `low` is for keys of a list or a resync: they yield to live changes, but are not starved. */
export type Priority = 'normal' | 'low';

/** A key that waits for a worker, or that a worker is processing. */
export class QueueItem implements Linked<QueueItem> {
  readonly key: string;
  priority: Priority;
  /** By `performance.now`. */
  readonly addedAtMs: number;
  /** Why the key was first added. */
  cause: Cause | undefined;
  /** The other causes for which the key was added while it waited, without duplicates. */
  furtherCauses: readonly Cause[] | undefined;
  /** How many times the key was added again while it waited. Adds during its last reconcile count once per cause. */
  furtherAdds = 0;
  /** Time of the earliest event that no reconcile has handled yet, by `performance.now`. */
  eventAtMs: number | undefined;
  previous: QueueItem | undefined;
  next: QueueItem | undefined;

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

  /** Every known cause, the first one first. */
  get causes(): readonly Cause[] {
    return [this.cause, ...(this.furtherCauses ?? [])].filter((cause) => cause !== undefined);
  }
}

/** The waiting keys of one namespace. */
class NamespaceKeys implements Linked<NamespaceKeys> {
  readonly waiting = new LinkedList<QueueItem>();
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

  push(item: QueueItem): void {
    const namespace = namespaceOf(item.key);
    let keys = this.#namespaces.get(namespace);
    if (keys === undefined) {
      keys = new NamespaceKeys();
      this.#namespaces.set(namespace, keys);
      this.#rotation.push(keys);
    }
    keys.waiting.push(item);
    this.#size += 1;
  }

  /** Removes and returns the next key. */
  shift(): QueueItem | undefined {
    const keys = this.#rotation.first;
    const item = keys?.waiting.first;
    if (keys === undefined || item === undefined) return undefined;
    this.#rotation.remove(keys);
    this.#rotation.push(keys);
    this.#remove(item, keys);
    return item;
  }

  /** Removes a key from any position. */
  delete(item: QueueItem): void {
    const keys = this.#namespaces.get(namespaceOf(item.key));
    if (keys !== undefined) this.#remove(item, keys);
  }

  #remove(item: QueueItem, keys: NamespaceKeys): void {
    keys.waiting.remove(item);
    this.#size -= 1;
    if (keys.waiting.first !== undefined) return;
    this.#rotation.remove(keys);
    this.#namespaces.delete(namespaceOf(item.key));
  }
}

/** Cluster-scoped objects share the namespace `''`. */
export const namespaceOf = (key: string): string => key.slice(0, Math.max(key.indexOf('/'), 0));
