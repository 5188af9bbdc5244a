import { isDeepStrictEqual } from 'node:util';
import type { Informer, InformerOptions } from '../cache/index.ts';
import { type KubeObject, resourceName } from '../kind/index.ts';

/** As much of an informer as can be said of all of them at once. */
type AnyInformer = Pick<
  Informer<KubeObject>,
  'kind' | 'run' | 'observe' | 'synced' | 'hasSynced' | 'isDefective' | 'missingPermission'
>;

/** An informer, how many hold it, and its run. */
export class SharedInformer {
  readonly informer: AnyInformer;
  readonly #options: object;
  readonly #stop = new AbortController();
  #holders = 0;
  #running: Promise<void> | undefined;

  constructor(informer: AnyInformer, options: object) {
    this.informer = informer;
    this.#options = options;
  }

  /**
   * One more holds it.
   *
   * @param options that it asks for; undefined: whatever the informer has.
   * @throws Error if they are others than the informer's own: then each would find in the store what the other wants.
   */
  hold<T extends KubeObject>(options: InformerOptions<T> | undefined): void {
    if (options !== undefined && !isDeepStrictEqual(options, this.#options)) {
      const names = [...new Set([...Object.keys(options), ...Object.keys(this.#options)])];
      throw new Error(
        `there is one informer for ${resourceName(this.informer.kind)}, and it has other options (${names.join(', ')})`,
      );
    }
    this.#holders += 1;
  }

  /** One less holds it; tells whether none is left. */
  release(): boolean {
    this.#holders -= 1;
    return this.#holders <= 0;
  }

  start(): void {
    this.#running ??= this.informer.run(this.#stop.signal);
  }

  /** Aborted when the informer is to stop: nobody need wait for it to sync any more. */
  get stopping(): AbortSignal {
    return this.#stop.signal;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}
