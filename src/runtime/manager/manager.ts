import { Informer, type InformerOptions } from '../cache/index.ts';
import type { Client } from '../client/index.ts';
import { checked } from '../controller/controller.ts';
import { Controller, type ControllerOptions, type InformerSource } from '../controller/index.ts';
import { type Kind, type KubeObject, resourceName, versionedResource } from '../kind/index.ts';
import type { Logger, Metrics } from '../observability/index.ts';
import { CacheSyncError } from './cache-sync-error.ts';
import { aborted, RunningController } from './running-controller.ts';
import { SharedInformer } from './shared-informer.ts';

/** What a manager needs. */
export interface ManagerOptions {
  /** What reconcilers are given. */
  readonly client: Client;
  /**
   * What the informers list and watch through, where it has to be another: one that reads also while the process does
   * not lead, for example. Default: {@link ManagerOptions.client}.
   */
  readonly reader?: Client;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** How long reconciles under way may take to end when the manager stops. Default 20,000. */
  readonly drainTimeoutMs?: number;
  /**
   * How long the API server may forbid a kind to be listed or watched, without a break, before its informer has synced,
   * until the run fails, in milliseconds. A server that does not answer, or does not know the kind yet, is waited for.
   * Default 120,000.
   */
  readonly cacheSyncTimeoutMs?: number;
}

/** How a manager runs. */
export interface ManagerRunOptions {
  /**
   * Until this resolves the manager stands by: its caches are filled and followed, but controllers hear of no change and
   * reconcile nothing, and their sources do not run. Then they are told of every object that the caches hold, as at any
   * start. Must not reject. Default: it does not stand by.
   */
  readonly leading?: Promise<unknown>;
}

/** Whether the manager can do its work, and if not what it waits for. */
export interface Readiness {
  readonly ready: boolean;
  /** The resources whose caches have not synced, or are stale because of a programming error. */
  readonly waitingFor: readonly string[];
  /** The Lease of which it is not known yet who holds it, in a process that contends for one. */
  readonly lease?: string;
}

/** A controller that a manager has. */
export interface ControllerHandle {
  readonly name: string;
  /**
   * Takes the controller away again: it takes no more work, what is under way is brought to its end within the time to
   * drain, and the informers that nobody else holds stop. Resolves when all that is done. Asked again, it does no more.
   */
  remove(): Promise<void>;
}

/**
 * Owns the informers, one a kind, and the controllers; starts them in order (caches, then workers) and stops them in
 * order (no new work, drain, abort, caches). Both can be added and taken away at any time, also while it runs.
 *
 * @example
 * const manager = new Manager({ client, log, metrics });
 * manager.controller(Echo, { owns: [Job], reconcile });
 * await manager.run(signal);
 */
export class Manager {
  readonly client: Client;
  readonly log: Logger;
  readonly #reader: Client;
  readonly #metrics: Metrics;
  readonly #drainTimeoutMs: number;
  readonly #cacheSyncTimeoutMs: number;
  /** By resource and version. */
  readonly #informers = new Map<string, SharedInformer>();
  /** By name. */
  readonly #controllers = new Map<string, RunningController>();
  readonly #defect = Promise.withResolvers<never>();
  readonly #synced = Promise.withResolvers<void>();
  #state: 'new' | 'running' | 'stopped' = 'new';
  /** Resolves when the manager no longer stands by; undefined when it does not. */
  #leading: Promise<unknown> | undefined;

  /** @throws RangeError for times that make no sense. */
  constructor(options: ManagerOptions) {
    this.client = options.client;
    this.#reader = options.reader ?? options.client;
    this.log = options.log;
    this.#metrics = options.metrics;
    this.#drainTimeoutMs = checked('drainTimeoutMs', options.drainTimeoutMs) ?? 20_000;
    this.#cacheSyncTimeoutMs = checked('cacheSyncTimeoutMs', options.cacheSyncTimeoutMs) ?? 120_000;
    // It is heard where somebody waits for it, which may be never.
    this.#defect.promise.catch(() => {});
  }

  /**
   * The shared informer of a kind, made when first asked for; at once started if the manager runs. Who asks holds it:
   * {@link release} gives it back, and the last to do so stops it. A controller does both for the kinds that it watches.
   *
   * A version of a kind has one informer: two caches could disagree (and take twice the memory). So it holds what its first user asked
   * for: without options, all; those who ask later get just that, and may say so by the same options, or by none.
   *
   * @throws Error for other options than those that the kind's informer has, and for a kind that has none yet when the
   *   manager has stopped; RangeError for options that make no sense.
   */
  informer<T extends KubeObject>(kind: Kind<T>, options?: InformerOptions<T>): Informer<T> {
    const resource = versionedResource(kind);
    const known = this.#informers.get(resource);
    if (known !== undefined) {
      known.hold(options);
      // Its key says of which kind it is.
      return known.informer as Informer<T>;
    }
    this.#refuseIfStopped();
    const informer = new Informer<T>({ ...options, client: this.#reader, kind, log: this.log });
    const shared = new SharedInformer(informer, options ?? {});
    shared.hold(options);
    this.#informers.set(resource, shared);
    // After whoever has asked has added handlers and indexes.
    if (this.#state === 'running') queueMicrotask(() => shared.stopping.aborted || this.#startInformer(shared));
    return informer;
  }

  /**
   * Gives back what {@link informer} gave. If nobody else holds it, the informer stops; resolves when it has.
   *
   * @throws Error if nobody holds an informer of the kind.
   */
  async release(kind: Kind): Promise<void> {
    const resource = versionedResource(kind);
    const shared = this.#informers.get(resource);
    if (shared === undefined) throw new Error(`nobody holds an informer of ${resourceName(kind)} ${kind.version}`);
    if (!shared.release()) return;
    this.#informers.delete(resource);
    await shared.stop();
  }

  /**
   * Adds a controller, which starts when the caches have synced: all of those that there are now.
   *
   * @throws Error if a controller has its name already, and when the manager has stopped; RangeError for options that
   *   make no sense; what {@link informer} throws.
   */
  controller<T extends KubeObject>(kind: Kind<T>, options: ControllerOptions<T>): ControllerHandle {
    this.#refuseIfStopped();
    const name = options.name ?? kind.kind.toLowerCase();
    if (this.#controllers.has(name)) throw new Error(`there is a controller "${name}" already: give this one a name`);
    const held: Kind[] = [];
    const informers: InformerSource = (other, informerOptions) => {
      const informer = this.informer(other, informerOptions);
      held.push(other);
      return informer;
    };
    const release = () => Promise.all(held.map((other) => this.release(other)));
    const controller = this.#made(name, kind, options, informers, release);
    const running = new RunningController(controller, this.#drainTimeoutMs);
    this.#controllers.set(name, running);
    if (this.#state === 'running') this.#start(running, Promise.all([this.#allSynced(), this.#leading]));
    const remove = async (): Promise<void> => {
      await running.stop();
      this.#controllers.delete(name);
      this.#metrics.removeController(name);
      await release();
    };
    let removed: Promise<void> | undefined;
    // Once: what it holds, others may hold too, and given back twice it would be taken from them.
    return { name, remove: () => (removed ??= remove()) };
  }

  /** Resolves when every cache that there was at the start has synced; never, if the manager is stopped before. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  /** A controller; one that can't be made gives back what it holds. */
  #made<T extends KubeObject>(
    name: string,
    kind: Kind<T>,
    options: ControllerOptions<T>,
    informers: InformerSource,
    release: () => Promise<unknown>,
  ): Controller<T> {
    const { client, log } = this;
    try {
      return new Controller(kind, options, { client, informers, log, metrics: this.#metrics });
    } catch (error) {
      this.#metrics.removeController(name);
      // None of its promises rejects: it held what it gives back.
      void release();
      throw error;
    }
  }

  /**
   * For a liveness probe: of each controller how long, in milliseconds, its slowest reconcile has gone on after its time
   * limit, if one has.
   */
  overruns(): ReadonlyMap<string, number> {
    const all = [...this.#controllers].map(([name, { controller }]) => [name, controller.overrunMs] as const);
    return new Map(all.filter(([, overMs]) => overMs > 0));
  }

  /** For a readiness probe. */
  readiness(): Readiness {
    const stale = [...this.#informers.values()].filter(({ informer }) => !informer.hasSynced || informer.isDefective);
    const waitingFor = namesOf(stale);
    return { ready: this.#state === 'running' && waitingFor.length === 0, waitingFor };
  }

  /**
   * Runs until the signal is aborted, then drains and resolves. While the API server can't be reached it waits.
   *
   * @throws whatever a worker threw that is not a reconcile's error: a defect; CacheSyncError for a permission that is
   *   missing.
   */
  async run(signal: AbortSignal, { leading }: ManagerRunOptions = {}): Promise<void> {
    if (this.#state !== 'new') throw new Error('a manager runs once');
    this.#state = 'running';
    if (leading !== undefined) this.#standBy(leading);
    const synced = this.#allSynced();
    const ready = Promise.all([synced, this.#leading]);
    // Those that stand by close their ears before there is anything to hear.
    for (const running of this.#controllers.values()) this.#start(running, ready);
    for (const shared of this.#informers.values()) this.#startInformer(shared);
    try {
      await Promise.race([this.#ready(synced), this.#defect.promise, aborted(signal)]);
      await Promise.race([this.#defect.promise, aborted(signal)]);
    } finally {
      this.#state = 'stopped';
      await this.#stop();
    }
  }

  #startInformer(shared: SharedInformer): void {
    const { informer, stopping } = shared;
    // An informer tells of each refusal by a reset.
    const reset = (): void => {
      const missing = stopping.aborted ? undefined : informer.missingPermission(this.#cacheSyncTimeoutMs);
      if (missing !== undefined) this.#defect.reject(new CacheSyncError(informer.kind, missing));
    };
    informer.observe({ progressed: () => {}, listed: () => {}, reset });
    shared.start();
  }

  #standBy(leading: Promise<unknown>): void {
    this.#leading = leading.then(() => {
      this.#leading = undefined;
    });
  }

  async #ready(synced: Promise<unknown>): Promise<void> {
    await synced;
    const resources = namesOf(this.#informers.values());
    this.#synced.resolve();
    if (this.#leading === undefined) {
      this.log.info({ resources }, 'caches have synced: workers start');
      return;
    }
    this.log.info({ resources }, 'caches have synced: standing by');
    await this.#leading;
    if (this.#state === 'running') this.log.info({ resources }, 'workers start');
  }

  /** Every cache that there is now has synced, or is not needed any more. */
  #allSynced(): Promise<unknown> {
    // A listener on an informer that has synced would stay with it, one for each controller that comes and goes.
    const unsynced = [...this.#informers.values()].filter(({ informer }) => !informer.hasSynced);
    return Promise.all(unsynced.map(({ informer, stopping }) => Promise.race([informer.synced, aborted(stopping)])));
  }

  #start(running: RunningController, ready: Promise<unknown>): void {
    if (this.#leading !== undefined) running.controller.standBy();
    running.start(ready).catch((error: unknown) => this.#defect.reject(error));
  }

  async #stop(): Promise<void> {
    this.log.info({ drainTimeoutMs: this.#drainTimeoutMs }, 'stopping: reconciles under way are brought to their end');
    const controllers = [...this.#controllers.values()];
    const ended = await Promise.all(controllers.map((running) => running.stop()));
    const deaf = controllers.filter((_, index) => !ended[index]).map(({ controller }) => controller.name);
    if (deaf.length > 0) {
      this.log.warn({ controllers: deaf }, 'a reconcile goes on though its signal is aborted: it is left behind');
    }
    await Promise.all([...this.#informers.values()].map((shared) => shared.stop()));
  }

  #refuseIfStopped(): void {
    if (this.#state === 'stopped') throw new Error('the manager has stopped');
  }
}

/** Of their resources, each once. */
const namesOf = (informers: Iterable<SharedInformer>): readonly string[] => [
  ...new Set([...informers].map(({ informer }) => resourceName(informer.kind))),
];
