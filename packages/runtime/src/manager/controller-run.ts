import type { Controller } from '../controller/controller.ts';
import type { KubeObject } from '../kind/object.ts';

/** The members of a controller that do not depend on its objects' type. */
type AnyController = Pick<Controller<KubeObject>, 'name' | 'run' | 'drain' | 'detach' | 'overrunMs'>;

/** How long to wait for reconciles to end after their signal is aborted. */
const abortTimeoutMs = 1000;

/** One run of a controller: its start, and its stop with a drain timeout. */
export class ControllerRun {
  readonly controller: AnyController;
  readonly #drainTimeoutMs: number;
  readonly #abortReconciles = new AbortController();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;

  constructor(controller: AnyController, drainTimeoutMs: number) {
    this.controller = controller;
    this.#drainTimeoutMs = drainTimeoutMs;
  }

  /**
   * Runs the controller once `ready` resolves, unless it is stopped before.
   *
   * @throws an error that a worker throws outside a reconcile: a programming error.
   */
  start(ready: Promise<unknown>): Promise<void> {
    this.#running = this.#run(ready);
    return this.#running;
  }

  /**
   * Waits for running reconciles, and aborts them after the drain timeout. Never rejects.
   *
   * @returns false if a reconcile is still running although its signal was aborted.
   */
  async stop(): Promise<boolean> {
    this.#stopping.abort();
    this.controller.drain();
    const timedOut = Promise.withResolvers<false>();
    let deadline = setTimeout(() => {
      this.#abortReconciles.abort();
      deadline = setTimeout(() => timedOut.resolve(false), abortTimeoutMs);
    }, this.#drainTimeoutMs);
    // start() reports the error.
    const ended = Promise.resolve(this.#running).then(
      () => true,
      () => true,
    );
    const hasEnded = await Promise.race([ended, timedOut.promise]);
    clearTimeout(deadline);
    this.controller.detach();
    return hasEnded;
  }

  async #run(ready: Promise<unknown>): Promise<void> {
    await Promise.race([ready, aborted(this.#stopping.signal)]);
    if (!this.#stopping.signal.aborted) await this.controller.run(this.#abortReconciles.signal);
  }
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
