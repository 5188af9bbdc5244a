import { isDeepStrictEqual } from 'node:util';
import type { AnyInformer, InformerOptions } from '../cache/informer.ts';
import type { ScopeOptions } from '../cache/scope.ts';
import { resourceName, viewedResource } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';

/** An informer with a reference count, and its run. */
export class SharedInformer {
  readonly informer: AnyInformer;
  /** Whether the manager waits for it; see {@link InformerOptions.delaysStart}. */
  readonly delaysStart: boolean;
  /** See {@link viewedResource}. */
  readonly viewedResource: string;
  readonly #options: object;
  readonly #onReleased: () => void;
  readonly #stop = new AbortController();
  #holders = 0;
  #running: Promise<void> | undefined;

  /** @param onReleased is called after the last release. */
  constructor(
    informer: AnyInformer,
    options: Pick<InformerOptions<KubeObject>, 'delaysStart'> & ScopeOptions,
    onReleased: () => void,
  ) {
    this.informer = informer;
    this.viewedResource = viewedResource(informer.kind);
    this.delaysStart = options.delaysStart ?? true;
    this.#options = withoutSelection(options);
    this.#onReleased = onReleased;
  }

  /**
   * Adds a holder.
   *
   * @param options the options that the holder requires, for the same selection. Undefined: any options.
   * @throws Error if the informer has other options.
   */
  hold<T extends KubeObject>(options: InformerOptions<T> | undefined): void {
    const required = options && withoutSelection(options);
    if (required !== undefined && !isDeepStrictEqual(required, this.#options)) {
      throw new Error(
        `the informer of ${resourceName(this.informer.kind)} has ${namesOf(this.#options)}, ` +
          `and ${namesOf(required)} was asked for: pass the same options, or none`,
      );
    }
    this.#holders += 1;
  }

  /** Removes a holder and returns whether it was the last one. */
  release(): boolean {
    this.#holders -= 1;
    if (this.#holders > 0) return false;
    this.#onReleased();
    return true;
  }

  start(): void {
    this.#running ??= this.informer.run(this.#stop.signal);
  }

  /** Aborted when the informer stops. Do not wait for it to sync after that. */
  get stopping(): AbortSignal {
    return this.#stop.signal;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

function withoutSelection<O extends ScopeOptions>(options: O): Omit<O, keyof ScopeOptions> {
  const { namespaces, labelSelector, fieldSelector, ...others } = options;
  return others;
}

/** The names of the options, without values, which may be functions: `{ labelSelector, transform }`. */
function namesOf(options: object): string {
  const names = Object.keys(options);
  return names.length === 0 ? 'no options' : `{ ${names.join(', ')} }`;
}
