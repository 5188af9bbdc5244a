import type { Controller } from '../controller/controller.ts';
import type { KubeObject } from '../kind/index.ts';

/** As much of a controller as can be said of all of them at once. */
type AnyController = Pick<Controller<KubeObject>, 'name' | 'run' | 'drain' | 'detach' | 'standBy' | 'overrunMs'>;

/** How long what was aborted may take to notice. */
const abortTimeoutMs = 1000;

/** A controller and its run. */
export class RunningController {
  readonly controller: AnyController;
  readonly #drainTimeoutMs: number;
  readonly #abandon = new AbortController();
  readonly #drained = new AbortController();
  #running: Promise<void> | undefined;

  constructor(controller: AnyController, drainTimeoutMs: number) {
    this.controller = controller;
    this.#drainTimeoutMs = drainTimeoutMs;
  }

  /**
   * Runs it once `ready` resolves, unless it is stopped before.
   *
   * @throws a worker's defect.
   */
  start(ready: Promise<unknown>): Promise<void> {
    this.#running = this.#run(ready);
    return this.#running;
  }

  /**
   * Brings what is under way to its end, within the time to drain, and aborts it then. Throws nothing.
   *
   * @returns whether all has ended: a reconcile that goes on although its signal is aborted is left behind.
   */
  async stop(): Promise<boolean> {
    this.#drained.abort();
    this.controller.drain();
    const deaf = Promise.withResolvers<false>();
    let deadline = setTimeout(() => {
      this.#abandon.abort();
      deadline = setTimeout(() => deaf.resolve(false), abortTimeoutMs);
    }, this.#drainTimeoutMs);
    // A defect comes out of start().
    const ended = Promise.resolve(this.#running).then(
      () => true,
      () => true,
    );
    const hasEnded = await Promise.race([ended, deaf.promise]);
    clearTimeout(deadline);
    this.controller.detach();
    return hasEnded;
  }

  async #run(ready: Promise<unknown>): Promise<void> {
    await Promise.race([ready, aborted(this.#drained.signal)]);
    if (!this.#drained.signal.aborted) await this.controller.run(this.#abandon.signal);
  }
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
