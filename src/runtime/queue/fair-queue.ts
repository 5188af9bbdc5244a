import { type Linked, LinkedList } from './linked-list.ts';

/**
 * How urgent a key is. `low` is for what nobody waits for (a first list, a resync): it does not stand before a change
 * that somebody has just made, but is not starved either.
 */
export type Priority = 'normal' | 'low';

/** A key that waits. */
export class WaitingKey implements Linked<WaitingKey> {
  readonly key: string;
  priority: Priority;
  /** By performance.now. */
  readonly addedAtMs: number;
  previous: WaitingKey | undefined;
  next: WaitingKey | undefined;

  constructor(key: string, priority: Priority, addedAtMs: number) {
    this.key = key;
    this.priority = priority;
    this.addedAtMs = addedAtMs;
  }
}

/** The waiting keys of one namespace. */
class Lane implements Linked<Lane> {
  readonly keys = new LinkedList<WaitingKey>();
  previous: Lane | undefined;
  next: Lane | undefined;
}

/**
 * Keys in the order in which they came, but namespaces in turn: a key waits for those of its own namespace that came
 * before it, and for at most as many of any other, however many wait there. All operations are O(1).
 */
export class FairQueue {
  readonly #lanes = new Map<string, Lane>();
  /** The lanes in the order of their turns; each holds a key. */
  readonly #turns = new LinkedList<Lane>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(waiting: WaitingKey): void {
    const namespace = namespaceOf(waiting.key);
    let lane = this.#lanes.get(namespace);
    if (lane === undefined) {
      lane = new Lane();
      this.#lanes.set(namespace, lane);
      this.#turns.push(lane);
    }
    lane.keys.push(waiting);
    this.#size += 1;
  }

  /** The next key, which waits no longer. */
  shift(): WaitingKey | undefined {
    const lane = this.#turns.first;
    const waiting = lane?.keys.first;
    if (lane === undefined || waiting === undefined) return undefined;
    this.#turns.remove(lane);
    this.#turns.push(lane);
    this.#remove(waiting, lane);
    return waiting;
  }

  /** Takes a key out, wherever it stands. */
  delete(waiting: WaitingKey): void {
    const lane = this.#lanes.get(namespaceOf(waiting.key));
    if (lane !== undefined) this.#remove(waiting, lane);
  }

  #remove(waiting: WaitingKey, lane: Lane): void {
    lane.keys.remove(waiting);
    this.#size -= 1;
    if (lane.keys.first !== undefined) return;
    this.#turns.remove(lane);
    this.#lanes.delete(namespaceOf(waiting.key));
  }
}

/** Cluster-scoped objects share one. */
const namespaceOf = (key: string): string => key.slice(0, Math.max(key.indexOf('/'), 0));
