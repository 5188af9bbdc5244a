import { Informer, type InformerOptions } from '../cache/index.ts';
import type { Client } from '../client/index.ts';
import { Controller, type ControllerOptions } from '../controller/index.ts';
import { type Kind, type KubeObject, resourceName } from '../kind/index.ts';
import type { Logger, Metrics } from '../observability/index.ts';

/** What a manager needs. */
export interface ManagerOptions {
  readonly client: Client;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** How long reconciles under way may take to end when the manager stops. Default 20,000. */
  readonly drainTimeoutMs?: number;
}

/** Whether the manager can do its work, and if not what it waits for. */
export interface Readiness {
  readonly ready: boolean;
  /** The resources whose caches have not synced. */
  readonly waitingFor: readonly string[];
}

/**
 * Owns the informers, one a kind, and the controllers; starts them in order (caches, then workers) and stops them in
 * order (no new work, drain, abort, caches).
 *
 * @example
 * const manager = new Manager({ client, log, metrics });
 * manager.controller(Echo, { owns: [Job], reconcile });
 * await manager.run(signal);
 */
export class Manager {
  readonly client: Client;
  readonly log: Logger;
  readonly #metrics: Metrics;
  readonly #drainTimeoutMs: number;
  readonly #informers = new Map<string, Pick<Informer<KubeObject>, 'run' | 'synced' | 'hasSynced'>>();
  readonly #controllers: Pick<Controller<KubeObject>, 'run' | 'drain'>[] = [];
  #state: 'new' | 'running' | 'stopped' = 'new';

  constructor(options: ManagerOptions) {
    this.client = options.client;
    this.log = options.log;
    this.#metrics = options.metrics;
    this.#drainTimeoutMs = options.drainTimeoutMs ?? 20_000;
  }

  /** The shared informer of a kind, made with the options of whoever asks first. Only before {@link run}. */
  informer<T extends KubeObject>(kind: Kind<T>, options: InformerOptions<T> = {}): Informer<T> {
    const resource = resourceName(kind);
    const known = this.#informers.get(resource);
    // Its key says of which kind it is.
    if (known !== undefined) return known as Informer<T>;
    if (this.#state !== 'new') throw new Error(`the informer of ${resource} must be asked for before the manager runs`);
    const informer = new Informer({ ...options, client: this.client, kind, log: this.log });
    this.#informers.set(resource, informer);
    return informer;
  }

  /** Adds a controller. Only before {@link run}. */
  controller<T extends KubeObject>(kind: Kind<T>, options: ControllerOptions<T>): void {
    if (this.#state !== 'new') {
      throw new Error(`the controller of ${resourceName(kind)} must be added before the manager runs`);
    }
    const controller = new Controller(kind, options, {
      client: this.client,
      informers: (other) => this.informer(other),
      log: this.log,
      metrics: this.#metrics,
    });
    this.#controllers.push(controller);
  }

  /** For a readiness probe. */
  readiness(): Readiness {
    const waitingFor = [...this.#informers].filter(([, informer]) => !informer.hasSynced).map(([resource]) => resource);
    return { ready: this.#state === 'running' && waitingFor.length === 0, waitingFor };
  }

  /**
   * Runs until the signal is aborted, then drains and resolves. While the API server can't be reached it waits.
   *
   * @throws whatever a worker threw that is not a reconcile's error: a defect.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#state !== 'new') throw new Error('a manager runs once');
    this.#state = 'running';
    const caches = new AbortController();
    const running = [...this.#informers.values()].map((informer) => informer.run(caches.signal));
    try {
      if (await this.#synced(signal)) await this.#reconcileUntil(signal);
    } finally {
      this.#state = 'stopped';
      caches.abort();
      await Promise.all(running);
    }
  }

  /** Waits for every cache; false if the signal came first. */
  async #synced(signal: AbortSignal): Promise<boolean> {
    const all = Promise.all([...this.#informers.values()].map((informer) => informer.synced));
    await Promise.race([all, aborted(signal)]);
    if (signal.aborted) return false;
    this.log.info({ resources: [...this.#informers.keys()] }, 'caches have synced: workers start');
    return true;
  }

  async #reconcileUntil(signal: AbortSignal): Promise<void> {
    const abandon = new AbortController();
    const workers = Promise.all(this.#controllers.map((controller) => controller.run(abandon.signal)));
    // Workers end before the signal only by a defect; a manager of informers alone has none.
    await Promise.race([workers.then(() => aborted(signal)), aborted(signal)]);
    this.log.info({ drainTimeoutMs: this.#drainTimeoutMs }, 'stopping: reconciles under way are brought to their end');
    for (const controller of this.#controllers) controller.drain();
    const deadline = setTimeout(() => abandon.abort(), this.#drainTimeoutMs);
    try {
      await workers;
    } finally {
      clearTimeout(deadline);
    }
  }
}

/** Resolves when the signal is aborted. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
