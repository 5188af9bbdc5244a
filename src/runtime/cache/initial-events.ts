import type { WatchEvent } from '../client/index.ts';
import { type KubeObject, keyOf, keyString } from '../kind/index.ts';

/** Collects the objects of a streamed list until the bookmark that ends it (KEP-3157). */
export class InitialEvents<T extends KubeObject> {
  readonly #objects = new Map<string, T>();

  get objects(): readonly T[] {
    return [...this.#objects.values()];
  }

  /** Adds an event and returns whether it ends the list. Objects may change or be deleted while the list is streamed. */
  add(event: WatchEvent<T>): boolean {
    if (event.type === 'BOOKMARK') return event.object.metadata.annotations?.['k8s.io/initial-events-end'] === 'true';
    const key = keyString(keyOf(event.object));
    if (event.type === 'DELETED') this.#objects.delete(key);
    else this.#objects.set(key, event.object);
    return false;
  }
}
