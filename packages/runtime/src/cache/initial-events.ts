import type { WatchEvent } from '../client/client.ts';
import { type KubeObject, keyOf, keyString } from '../kind/object.ts';

/** The end of a streamed list. */
export interface StreamedListEnd<T extends KubeObject> {
  readonly resourceVersion: string;
  /** The events that followed in the same batch. */
  readonly laterEvents: readonly WatchEvent<T>[];
}

/** Collects the objects of a streamed list until the bookmark that ends it (KEP-3157). */
export class InitialEvents<T extends KubeObject> {
  readonly #objects = new Map<string, T>();

  get objects(): readonly T[] {
    return [...this.#objects.values()];
  }

  /**
   * Adds the events up to the end of the list. Returns the end, or undefined if the list continues in the next batch.
   */
  takeUntilEnd(events: readonly WatchEvent<T>[]): StreamedListEnd<T> | undefined {
    for (const [index, event] of events.entries()) {
      if (isListEnd(event)) {
        const { resourceVersion } = event.object.metadata;
        return { resourceVersion, laterEvents: events.slice(index + 1) };
      }
      this.#add(event);
    }
    return undefined;
  }

  /** Objects may change or be deleted while the list is streamed. */
  #add(event: WatchEvent<T>): void {
    if (event.type === 'BOOKMARK') return;
    const key = keyString(keyOf(event.object));
    if (event.type === 'DELETED') this.#objects.delete(key);
    else this.#objects.set(key, event.object);
  }
}

const isListEnd = (event: WatchEvent<KubeObject>): boolean =>
  event.type === 'BOOKMARK' && event.object.metadata.annotations?.['k8s.io/initial-events-end'] === 'true';
