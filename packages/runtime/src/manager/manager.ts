import { type AnyInformer, Informer, type InformerOptions } from '../cache/informer.ts';
import type { ScopeOptions } from '../cache/scope.ts';
import type { Client } from '../client/client.ts';
import { Controller, type ControllerHandle, type ControllerOptions } from '../controller/controller.ts';
import type { InformerSource } from '../controller/watch.ts';
import {
  canonicalSelector,
  describeView,
  type Kind,
  resourceName,
  selectorsOf,
  versionedResource,
  viewedResource,
} from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { OperatorObserver } from '../observer/operator-observer.ts';
import type { Logger } from '../shared/logger.ts';
import { requireTimerMs } from '../shared/timer-ms.ts';
import { CacheSyncError } from './cache-sync-error.ts';
import { aborted, ControllerRun } from './controller-run.ts';
import { SharedInformer } from './shared-informer.ts';

/** Options of a {@link Manager}. */
export interface ManagerOptions {
  /** The client that reconcilers use. */
  readonly client: Client;
  /**
   * The client that informers use, for example one that may also read while the process does not lead.
   * Default: {@link ManagerOptions.client}.
   */
  readonly reader?: Client;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Observes every reconcile. Default: none. */
  readonly observer?: OperatorObserver | undefined;
  /** How long to wait for running reconciles when the manager stops, in milliseconds. Default 20,000. */
  readonly drainTimeoutMs?: number;
  /**
   * The run fails if the API server continuously forbids listing or watching a kind for this long, in milliseconds,
   * before the kind's informer has synced. The manager waits for an unreachable server, and for one that does not serve
   * the kind yet. After the sync, the manager is not ready while lists and watches of a kind have failed for this long.
   * Default 120,000.
   */
  readonly cacheSyncTimeoutMs?: number;
}

/** Options of {@link Manager.run}. */
export interface ManagerRunOptions {
  /**
   * The manager is a warm standby until this resolves: it fills its caches and keeps them current, but controllers
   * receive no events, reconcile nothing and run no sources. Then every cached object is enqueued, as at any start.
   * Must not reject. Default: no standby.
   */
  readonly leading?: Promise<unknown>;
}

/** Whether the manager is ready, and if not, what it waits for. */
export interface Readiness {
  readonly ready: boolean;
  /**
   * The resources whose caches have not synced or are stale. A cache is stale after a programming error, or when lists
   * and watches have failed for `cacheSyncTimeoutMs`.
   */
  readonly waitingFor: readonly string[];
  /** The Lease whose holder is unknown, in a process that contends for the Lease: see `Operator.readiness`. */
  readonly lease?: string;
  /**
   * Where the Leases of other operators have not been listed yet: a namespace, or `all namespaces`. Another operator
   * may work in the same namespaces.
   */
  readonly unlistedLeases?: string;
  /** Which other operator works in the same namespaces. This operator waits until the other one has stopped. */
  readonly conflict?: string;
  /** What a service of the process waits for: see `OperatorService`. */
  readonly service?: string;
}

/** Identifies an informer: equal if the informer has the same objects in the same form. */
function informerId(kind: Kind, { namespaces, labelSelector, fieldSelector }: ScopeOptions): string {
  const selectors = selectorsOf(kind, {
    ...(labelSelector && { labelSelector }),
    ...(fieldSelector && { fieldSelector }),
  });
  return JSON.stringify([
    versionedResource(kind),
    kind.view?.isMetadataOnly ?? false,
    namespaces && [...new Set(namespaces)].sort(),
    canonicalSelector(selectors.labelSelector ?? ''),
    canonicalSelector(selectors.fieldSelector ?? ''),
  ]);
}

/** See {@link Manager.inspect}. */
export interface ManagerContents {
  readonly informers: readonly AnyInformer[];
  /** By the controller's name. */
  readonly watched: ReadonlyMap<string, ReadonlySet<string>>;
}

/**
 * Owns the informers, one per kind, version and selection, and the controllers. Starts caches before workers. On a stop, it takes
 * no new work, drains the reconciles, aborts them, and then stops the caches. Informers and controllers can be added
 * and removed at any time, even while the manager runs.
 *
 * @example
 * const manager = new Manager({ client, log, metrics });
 * manager.controller(Widget, { watches: [owns(Widget, ConfigMap)], reconcile });
 * await manager.run(signal);
 */
export class Manager {
  readonly client: Client;
  readonly log: Logger;
  readonly #reader: Client;
  readonly #metrics: Metrics;
  readonly #observer: OperatorObserver | undefined;
  readonly #drainTimeoutMs: number;
  readonly #cacheSyncTimeoutMs: number;
  /** By `informerId`. */
  readonly #informers = new Map<string, SharedInformer>();
  /** By resource and version. Lists are copied on write. */
  readonly #byResource = new Map<string, readonly AnyInformer[]>();
  /** By name. */
  readonly #controllers = new Map<string, ControllerRun>();
  /** The informers of what each controller watches. */
  readonly #watched = new Map<ControllerRun, ReadonlySet<AnyInformer>>();
  readonly #tasks: ((signal: AbortSignal) => Promise<void>)[] = [];
  readonly #stopTasks = new AbortController();
  readonly #fatalError = Promise.withResolvers<never>();
  readonly #synced = Promise.withResolvers<void>();
  #state: 'new' | 'running' | 'stopped' = 'new';
  /** Resolves when the standby ends. Undefined if the manager is not a standby. */
  #leading: Promise<unknown> | undefined;

  /** @throws RangeError for a timeout that is not positive or too long for a timer. */
  constructor(options: ManagerOptions) {
    this.client = options.client;
    this.#reader = options.reader ?? options.client;
    this.log = options.log;
    this.#metrics = options.metrics;
    this.#observer = options.observer;
    this.#drainTimeoutMs = requireTimerMs('drainTimeoutMs', options.drainTimeoutMs) ?? 20_000;
    this.#cacheSyncTimeoutMs = requireTimerMs('cacheSyncTimeoutMs', options.cacheSyncTimeoutMs) ?? 120_000;
    // `run` awaits this promise. If the manager never runs, the rejection must not count as unhandled.
    this.#fatalError.promise.catch(() => {});
  }

  /**
   * Returns the shared informer of a kind. Creates it on first use, and starts it if the manager runs. The caller holds
   * the informer until {@link release}; the last release stops it. A controller does both for the kinds that it
   * watches.
   *
   * There is one informer per selection: namespaces, selectors, and whether only the metadata is cached. Selections are
   * equal if they have the same namespaces and requirements, in any order. For an equal selection the first caller's
   * other options apply; later callers pass the same ones. Without options, the result is the first informer of the
   * kind that exists. The stores of all informers of a kind show the writes of a reconcile, but their watches may
   * deliver the change of another client at different times.
   *
   * @throws Error if the informer has other options, and for a new informer after the manager has stopped; RangeError
   *   for invalid options.
   *
   * @example
   * const webPods = manager.informer(Pod, { labelSelector: 'app=web' });
   * const secrets = manager.informer(metadataOnly(Secret));
   */
  informer<T extends KubeObject>(kind: Kind<T>, options?: InformerOptions<T>): Informer<T> {
    const id = informerId(kind, options ?? {});
    const known = options === undefined ? this.#firstInformerOf(kind) : this.#informers.get(id);
    if (known !== undefined) {
      known.hold(options);
      // The key determines the kind and whether only metadata is cached, and so the type.
      return known.informer as Informer<T>;
    }
    this.#refuseIfStopped();
    const informer = this.createInformer<T>({ ...options, client: this.#reader, kind, log: this.log });
    const view = describeView({ ...kind.view, ...informer.selection });
    const forget = this.#metrics.informer(resourceName(kind), () => informer.statistics(), view);
    const shared = new SharedInformer(informer, options ?? {}, forget);
    shared.hold(options);
    this.#informers.set(id, shared);
    const resource = versionedResource(kind);
    this.#byResource.set(resource, [...this.#informersOf(kind), shared.informer]);
    // Start after the caller has added handlers and indexes.
    if (this.#state === 'running') queueMicrotask(() => shared.stopping.aborted || this.#startInformer(shared));
    return informer;
  }

  /**
   * Releases an informer. The last release stops the informer, and resolves when it has stopped.
   *
   * @throws Error if nobody holds the informer.
   */
  async release(informer: Pick<AnyInformer, 'kind'>): Promise<void> {
    const { kind } = informer;
    const found = [...this.#informers].find(([, shared]) => shared.informer === informer);
    if (found === undefined) throw new Error(`nobody holds this informer of ${resourceName(kind)} ${kind.version}`);
    const [id, shared] = found;
    if (!shared.release()) return;
    this.#informers.delete(id);
    const others = this.#informersOf(kind).filter((other) => other !== informer);
    const resource = versionedResource(kind);
    if (others.length === 0) this.#byResource.delete(resource);
    else this.#byResource.set(resource, others);
    await shared.stop();
  }

  #informersOf(kind: Kind): readonly AnyInformer[] {
    return this.#byResource.get(versionedResource(kind)) ?? [];
  }

  #firstInformerOf(kind: Kind): SharedInformer | undefined {
    const resource = viewedResource(kind);
    return [...this.#informers.values()].find((shared) => shared.viewedResource === resource);
  }

  /**
   * Adds a controller. It starts when the caches of the kinds that it watches, and of the kinds that no controller
   * watches, have synced. So a kind that cannot be listed delays only the controllers that watch it.
   *
   * @throws Error if the name is taken or the manager has stopped; RangeError for invalid options; whatever
   *   {@link informer} throws.
   */
  controller<T extends KubeObject>(kind: Kind<T>, options: ControllerOptions<T>): ControllerHandle {
    this.#refuseIfStopped();
    const name = options.name ?? kind.kind.toLowerCase();
    if (this.#controllers.has(name)) throw new Error(`controller "${name}" already exists: give this one another name`);
    const held: AnyInformer[] = [];
    const informers: InformerSource = (other, informerOptions) => {
      const informer = this.informer(other, informerOptions);
      // The manager does not add objects to the store.
      held.push(informer as unknown as AnyInformer);
      return informer;
    };
    const release = () => Promise.all(held.map((other) => this.release(other)));
    const controller = this.#createController(name, kind, options, informers, release);
    const run = new ControllerRun(controller, this.#drainTimeoutMs);
    this.#controllers.set(name, run);
    this.#watched.set(run, new Set(held));
    if (this.#state === 'running') this.#start(run);
    const remove = async (): Promise<void> => {
      await run.stop();
      this.#controllers.delete(name);
      this.#watched.delete(run);
      this.#forget(name);
      await release();
    };
    let removed: Promise<void> | undefined;
    // Remove only once: a second release would release the informers of other holders.
    return { name, remove: () => (removed ??= remove()) };
  }

  /**
   * Adds work other than reconciles that only the leader may do. It starts with the manager, or when a warm standby
   * becomes the leader, and does not wait for caches. It must end soon after its signal has aborted, when the manager
   * stops. If it rejects, so does {@link run}.
   *
   * @throws Error if the manager runs already, or has stopped.
   */
  task(run: (signal: AbortSignal) => Promise<void>): void {
    if (this.#state !== 'new') throw new Error('a task must be added before the manager runs');
    this.#tasks.push(run);
  }

  /** Resolves when all caches that were present at the start have synced. Never resolves if the manager stops first. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  /**
   * The current informers, and the versioned resources that each controller watches, for tests that check the caches.
   */
  inspect(): ManagerContents {
    return {
      informers: [...this.#informers.values()].map(({ informer }) => informer),
      watched: new Map(
        [...this.#watched].map(([{ controller }, informers]) => [
          controller.name,
          new Set([...informers].map(({ kind }) => versionedResource(kind))),
        ]),
      ),
    };
  }

  /** Creates an informer. A subclass may return one whose store is a view. */
  protected createInformer<T extends KubeObject>(options: ConstructorParameters<typeof Informer<T>>[0]): Informer<T> {
    return new Informer<T>(options);
  }

  /** Creates a controller. If that fails, releases its informers and metrics. */
  #createController<T extends KubeObject>(
    name: string,
    kind: Kind<T>,
    options: ControllerOptions<T>,
    informers: InformerSource,
    release: () => Promise<unknown>,
  ): Controller<T> {
    const { client, log } = this;
    try {
      const [metrics, observer] = [this.#metrics, this.#observer];
      const informersOf = (other: Kind) => this.#informersOf(other);
      return new Controller(kind, options, { client, informers, informersOf, log, metrics, observer });
    } catch (error) {
      this.#forget(name);
      // This cannot reject, because it releases only informers that are held.
      void release();
      throw error;
    }
  }

  /**
   * For a liveness probe: how long each controller's slowest reconcile has exceeded its time limit, in milliseconds.
   * Contains only controllers with such a reconcile.
   */
  overruns(): ReadonlyMap<string, number> {
    const all = [...this.#controllers].map(([name, { controller }]) => [name, controller.overrunMs] as const);
    return new Map(all.filter(([, overMs]) => overMs > 0));
  }

  /** For a readiness probe. */
  readiness(): Readiness {
    const isStale = (informer: SharedInformer['informer']): boolean =>
      !informer.hasSynced || informer.isDefective || informer.failingForMs() >= this.#cacheSyncTimeoutMs;
    const stale = [...this.#informers.values()].filter(({ informer, delaysStart }) => delaysStart && isStale(informer));
    const waitingFor = namesOf(stale);
    return { ready: this.#state === 'running' && waitingFor.length === 0, waitingFor };
  }

  /**
   * Runs until the signal is aborted, then drains and resolves. While the API server is unreachable, it waits.
   *
   * @throws CacheSyncError for a missing permission; an error that a worker throws outside a reconcile: a programming
   *   error.
   */
  async run(signal: AbortSignal, { leading }: ManagerRunOptions = {}): Promise<void> {
    if (this.#state !== 'new') throw new Error('a manager runs only once: construct a new one');
    this.#state = 'running';
    if (leading !== undefined) this.#standBy(leading);
    const synced = this.#allSynced();
    // A standby detaches its controllers' handlers before the informers deliver anything.
    for (const run of this.#controllers.values()) this.#start(run);
    for (const shared of this.#informers.values()) this.#startInformer(shared);
    const tasks = this.#runTasks();
    try {
      await Promise.race([this.#waitUntilWorking(synced), this.#fatalError.promise, aborted(signal)]);
      await Promise.race([this.#fatalError.promise, aborted(signal)]);
    } finally {
      this.#state = 'stopped';
      this.#stopTasks.abort();
      await this.#stop();
      await tasks;
    }
  }

  /** Never rejects. */
  async #runTasks(): Promise<void> {
    const { signal } = this.#stopTasks;
    await Promise.race([this.#leading, aborted(signal)]);
    if (signal.aborted) return;
    const runs = this.#tasks.map((run) => run(signal).catch((error: unknown) => this.#fatalError.reject(error)));
    await Promise.all(runs);
  }

  #startInformer(shared: SharedInformer): void {
    const { informer, stopping } = shared;
    // After the first list, a missing permission only makes the process unready, because the permission may come back.
    informer.onUnavailable(() => {
      const isStarting = !stopping.aborted && !informer.hasSynced;
      const missing = isStarting ? informer.missingPermission(this.#cacheSyncTimeoutMs) : undefined;
      if (missing !== undefined) this.#fatalError.reject(new CacheSyncError(informer.kind, missing));
    });
    shared.start();
  }

  #standBy(leading: Promise<unknown>): void {
    this.#leading = leading.then(() => {
      this.#leading = undefined;
    });
  }

  async #waitUntilWorking(synced: Promise<unknown>): Promise<void> {
    await synced;
    // An informer that stops counts as synced, so that its controllers do not wait for it.
    if (this.#state !== 'running') return;
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

  /**
   * Resolves when each present cache that delays the start has synced or is stopping.
   *
   * @param isNeeded limits the caches. Default: all.
   */
  #allSynced(isNeeded: (informer: AnyInformer) => boolean = () => true): Promise<unknown> {
    // Skip synced informers: otherwise each controller that is added and removed would leave a listener on them.
    const unsynced = [...this.#informers.values()].filter(
      ({ informer, delaysStart }) => delaysStart && !informer.hasSynced && isNeeded(informer),
    );
    return Promise.all(unsynced.map(({ informer, stopping }) => Promise.race([informer.synced, aborted(stopping)])));
  }

  /** Starts a controller when its caches have synced and this process leads. */
  #start(run: ControllerRun): void {
    if (this.#leading !== undefined) run.controller.detach();
    const watchedByOthers = new Set([...this.#watched].flatMap(([other, held]) => (other === run ? [] : [...held])));
    const own = this.#watched.get(run);
    const synced = this.#allSynced((informer) => own?.has(informer) === true || !watchedByOthers.has(informer));
    run.start(Promise.all([synced, this.#leading])).catch((error: unknown) => this.#fatalError.reject(error));
  }

  async #stop(): Promise<void> {
    this.log.info({ drainTimeoutMs: this.#drainTimeoutMs }, 'stopping: waiting for running reconciles');
    const controllers = [...this.#controllers.values()];
    const ended = await Promise.all(controllers.map((run) => run.stop()));
    const unfinished = controllers.filter((_, index) => !ended[index]).map(({ controller }) => controller.name);
    if (unfinished.length > 0) {
      this.log.warn(
        { controllers: unfinished },
        'a reconcile did not end after its signal was aborted: not waiting for it',
      );
    }
    await Promise.all([...this.#informers.values()].map((shared) => shared.stop()));
  }

  /** Removes the metrics and other data collected about a controller. */
  #forget(name: string): void {
    this.#metrics.removeController(name);
    this.#observer?.controllerRemoved(name);
  }

  #refuseIfStopped(): void {
    if (this.#state === 'stopped') throw new Error('the manager has stopped');
  }
}

/** The resource names, without duplicates. */
const namesOf = (informers: Iterable<SharedInformer>): readonly string[] => [
  ...new Set([...informers].map(({ informer }) => resourceName(informer.kind))),
];
