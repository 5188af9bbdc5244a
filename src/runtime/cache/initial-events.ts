import type { WatchEvent } from '../client/index.ts';
import { type KubeObject, keyOf, keyString } from '../kind/index.ts';

/** What a streamed list has brought so far: the objects that there are, until the bookmark that ends it (KEP-3157). */
export class InitialEvents<T extends KubeObject> {
  readonly #objects = new Map<string, T>();

  get objects(): readonly T[] {
    return [...this.#objects.values()];
  }

  /** Takes an event in, and tells whether it was the last. An object may change or go while the list is streamed. */
  add(event: WatchEvent<T>): boolean {
    if (event.type === 'BOOKMARK') return event.object.metadata.annotations?.['k8s.io/initial-events-end'] === 'true';
    const key = keyString(keyOf(event.object));
    if (event.type === 'DELETED') this.#objects.delete(key);
    else this.#objects.set(key, event.object);
    return false;
  }
}
