import type { Client, Selection, WatchEvent } from '../client/index.ts';
import { type Kind, type KubeObject, keyOf, keyString, resourceName } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import { Reflector } from './reflector.ts';
import { compareResourceVersions } from './resource-version.ts';
import { type Delta, type IndexFunction, type ReadonlyStore, Store } from './store.ts';

/** Is told of every change, in order, after the store has it. Must not wait; one that throws has missed the change. */
export type DeltaHandler<T extends KubeObject> = (delta: Delta<T>) => void;

/** How far the cache of some kind has come: what there is to know of an informer without knowing its objects' type. */
export type CacheProgress = Pick<Informer<KubeObject>, 'kind' | 'hasReached' | 'onProgress'>;

/** One kind's reflector and store, shared by all who watch the kind. */
export class Informer<T extends KubeObject> {
  readonly kind: Kind<T>;
  readonly #store = new Store<T>();
  readonly #handlers: DeltaHandler<T>[] = [];
  readonly #progress: (() => void)[] = [];
  readonly #reflector: Reflector<T>;
  readonly #log: Logger;
  readonly #synced = Promise.withResolvers<void>();
  #resourceVersion: string | undefined;

  constructor(options: {
    readonly client: Client;
    readonly kind: Kind<T>;
    readonly selection?: Selection;
    readonly log: Logger;
  }) {
    const { client, kind, selection = {}, log } = options;
    this.kind = kind;
    this.#log = log.child({ resource: resourceName(kind) });
    this.#reflector = new Reflector({
      client,
      kind,
      selection,
      log,
      target: {
        replace: (objects, resourceVersion) => this.#replace(objects, resourceVersion),
        event: (event) => this.#event(event),
      },
    });
  }

  get store(): ReadonlyStore<T> {
    return this.#store;
  }

  /** Whether the store has held a whole list. */
  get hasSynced(): boolean {
    return this.#resourceVersion !== undefined;
  }

  /** Resolves once the store has held a whole list. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  addIndex(name: string, values: IndexFunction<T>): void {
    this.#store.addIndex(name, values);
  }

  /** Handlers added before {@link run} see every object once as `added`. */
  addHandler(handler: DeltaHandler<T>): void {
    this.#handlers.push(handler);
  }

  /** Calls back whenever the store may have reached a newer resourceVersion. */
  onProgress(callback: () => void): void {
    this.#progress.push(callback);
  }

  /** Whether the store holds everything up to this resourceVersion. */
  hasReached(resourceVersion: string): boolean {
    return this.#resourceVersion !== undefined && compareResourceVersions(this.#resourceVersion, resourceVersion) >= 0;
  }

  /** Runs until the signal is aborted; never throws. */
  run(signal: AbortSignal): Promise<void> {
    return this.#reflector.run(signal);
  }

  #replace(objects: readonly T[], resourceVersion: string): void {
    const deltas = this.#store.replace(objects);
    this.#resourceVersion = resourceVersion;
    for (const delta of deltas) this.#emit(delta);
    this.#advanced();
    this.#synced.resolve();
  }

  #event(event: WatchEvent<T>): void {
    const delta = event.type === 'BOOKMARK' ? undefined : this.#apply(event);
    this.#resourceVersion = event.object.metadata.resourceVersion;
    if (delta !== undefined) this.#emit(delta);
    this.#advanced();
  }

  #apply(event: Exclude<WatchEvent<T>, { type: 'BOOKMARK' }>): Delta<T> | undefined {
    return event.type === 'DELETED' ? this.#store.delete(event.object) : this.#store.set(event.object);
  }

  #emit(delta: Delta<T>): void {
    for (const handler of this.#handlers) {
      try {
        handler(delta);
      } catch (error) {
        // The store has the change: thrown on, the error would be taken for the watch's, and every other handler
        // would miss what follows, for a new list finds no difference any more.
        const details = { err: error, object: keyString(keyOf(delta.object)), change: delta.type };
        this.#log.error(details, 'a handler threw: it has missed a change');
      }
    }
  }

  #advanced(): void {
    for (const callback of this.#progress) callback();
  }
}
