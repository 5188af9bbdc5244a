import type { Registry } from 'prom-client';
import type { CacheStatistics } from '../cache/informer.ts';
import type { RequestObserver } from '../client/exchange.ts';
import type { FenceClosingReason, LeaderObserver, TakeoverReason } from '../leader-election/leader-observer.ts';
import type { ReconcileObserver } from '../observer/operator-observer.ts';
import type { QueueObserver } from '../queue/work-queue.ts';
import { type Readings, ScrapedHistogram, scrapedCounter, scrapedGauge } from './scraped-metrics.ts';

/** controller-runtime's buckets for the duration of a reconcile, in seconds. */
const reconcileBuckets = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2,
  2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
];

/** client-go's buckets for the work queue, in seconds: powers of ten from 10 ns to 1,000 s. */
const queueBuckets = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000];

/**
 * From an event to the end of its reconcile, in seconds. A reconcile takes milliseconds, but its backoff and its time
 * in the queue may take minutes.
 */
const eventBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

/** A reconcile that has run for this many seconds counts as stuck. */
const stuckAfterSeconds = 60;

/** Further priorities share one label value, as in controller-runtime, to limit the number of series. */
const maxPriorities = 25;

/**
 * The runtime's metrics. If controller-runtime or client-go has the same metric, it has the same name, labels and
 * buckets, so that dashboards for Go operators work. Observing is cheap: it changes plain numbers, which are read at a
 * scrape. No label has a value per object or namespace. So the number of series depends only on the controllers, the
 * kinds that they watch, and the API server's status codes.
 */
export class Metrics {
  readonly registry: Registry;
  readonly #reconciles: Readings<'controller' | 'result'>;
  readonly #reconcileErrors: Readings<'controller'>;
  readonly #terminalErrors: Readings<'controller'>;
  readonly #panics: Readings<'controller'>;
  readonly #timeouts: Readings<'controller'>;
  readonly #reconcileSeconds: ScrapedHistogram<'controller'>;
  readonly #activeWorkers: Readings<'controller'>;
  readonly #maxWorkers: Readings<'controller'>;
  readonly #queueDepth: Readings<'name' | 'controller' | 'priority'>;
  readonly #queueAdds: Readings<'name' | 'controller'>;
  readonly #queueRetries: Readings<'name' | 'controller'>;
  readonly #queueSeconds: ScrapedHistogram<'name' | 'controller'>;
  readonly #workSeconds: ScrapedHistogram<'name' | 'controller'>;
  readonly #unfinishedSeconds: Readings<'name' | 'controller'>;
  readonly #longestSeconds: Readings<'name' | 'controller'>;
  readonly #watchesReplaced: Readings<'resource' | 'view'>;
  readonly #eventSeconds: ScrapedHistogram<'controller'>;
  readonly #stuck: Readings<'controller'>;
  readonly #eventAge: Readings<'resource' | 'view'>;
  readonly #cachedObjects: Readings<'resource' | 'view'>;
  readonly #unreadableObjects: Readings<'resource' | 'view'>;
  readonly #lists: Readings<'resource' | 'view'>;
  readonly #listErrors: Readings<'resource' | 'view' | 'verb'>;
  /** The informers of each view of a resource. */
  readonly #informers = new Map<string, ResourceInformers>();
  readonly #requests: Readings<'code' | 'host' | 'method'>;
  readonly #leading: Readings<'name'>;
  readonly #transitions: Readings<'name'>;
  readonly #takeovers: Readings<'name' | 'reason'>;
  readonly #fenceClosings: Readings<'name' | 'reason'>;
  /** All metrics with the label `controller`, except histograms. */
  readonly #perController: readonly { remove(label: 'controller', controller: string): void }[];

  constructor(registry: Registry) {
    const controller = ['controller'] as const;
    const queue = ['name', 'controller'] as const;
    const informer = ['resource', 'view'] as const;
    this.registry = registry;
    this.#reconciles = scrapedCounter(registry, {
      name: 'controller_runtime_reconcile_total',
      help: 'Reconciles per controller and result',
      labels: ['controller', 'result'],
    });
    this.#reconcileErrors = scrapedCounter(registry, {
      name: 'controller_runtime_reconcile_errors_total',
      help: 'Failed reconciles per controller',
      labels: controller,
    });
    this.#terminalErrors = scrapedCounter(registry, {
      name: 'controller_runtime_terminal_reconcile_errors_total',
      help: 'Reconciles that failed with an error that is not retried, per controller',
      labels: controller,
    });
    this.#panics = scrapedCounter(registry, {
      name: 'controller_runtime_reconcile_panics_total',
      help: 'Reconciles that failed because of a defect, per controller',
      labels: controller,
    });
    this.#timeouts = scrapedCounter(registry, {
      name: 'controller_runtime_reconcile_timeouts_total',
      help: 'Reconciles that exceeded their time limit, per controller',
      labels: controller,
    });
    this.#reconcileSeconds = new ScrapedHistogram(registry, {
      name: 'controller_runtime_reconcile_time_seconds',
      help: 'Duration of a reconcile per controller',
      labels: controller,
      buckets: reconcileBuckets,
    });
    this.#activeWorkers = scrapedGauge(registry, {
      name: 'controller_runtime_active_workers',
      help: 'Workers that are reconciling now, per controller',
      labels: controller,
    });
    this.#maxWorkers = scrapedGauge(registry, {
      name: 'controller_runtime_max_concurrent_reconciles',
      help: 'Workers per controller',
      labels: controller,
    });
    this.#queueDepth = scrapedGauge(registry, {
      name: 'workqueue_depth',
      help: 'Keys in the queue, by priority',
      labels: ['name', 'controller', 'priority'],
    });
    this.#queueAdds = scrapedCounter(registry, {
      name: 'workqueue_adds_total',
      help: 'Keys added to the queue',
      labels: queue,
    });
    this.#queueRetries = scrapedCounter(registry, {
      name: 'workqueue_retries_total',
      help: 'Keys scheduled for a later add, after a failure or for a requeue',
      labels: queue,
    });
    this.#queueSeconds = new ScrapedHistogram(registry, {
      name: 'workqueue_queue_duration_seconds',
      help: 'Time that a key was in the queue',
      labels: queue,
      buckets: queueBuckets,
    });
    this.#workSeconds = new ScrapedHistogram(registry, {
      name: 'workqueue_work_duration_seconds',
      help: 'Time that a worker processed a key',
      labels: queue,
      buckets: queueBuckets,
    });
    this.#unfinishedSeconds = scrapedGauge(registry, {
      name: 'workqueue_unfinished_work_seconds',
      help: 'Sum of the times that the workers have processed their current keys',
      labels: queue,
    });
    this.#longestSeconds = scrapedGauge(registry, {
      name: 'workqueue_longest_running_processor_seconds',
      help: 'Longest time that a worker has processed its current key',
      labels: queue,
    });
    this.#watchesReplaced = scrapedCounter(registry, {
      name: 'informer_watches_replaced_total',
      help: 'Watches replaced because they were silent while the cache showed a response that they had not delivered',
      labels: informer,
    });
    this.#eventSeconds = new ScrapedHistogram(registry, {
      name: 'controller_event_latency_seconds',
      help: 'Time from an event of a watch to the end of the next reconcile of its key',
      labels: controller,
      buckets: eventBuckets,
    });
    this.#stuck = scrapedGauge(registry, {
      name: 'controller_stuck_reconciles',
      help: 'Reconciles that have run for more than a minute',
      labels: controller,
    });
    this.#eventAge = scrapedGauge(registry, {
      name: 'informer_last_event_age_seconds',
      help:
        'Time since the API server last confirmed the cache: by an event, a bookmark, an accepted watch or a list. ' +
        'Normally a minute at most, ten for a kind that nobody has written since the API server started',
      labels: informer,
    });
    this.#cachedObjects = scrapedGauge(registry, {
      name: 'informer_cached_objects',
      help: 'Objects in the cache',
      labels: informer,
    });
    this.#unreadableObjects = scrapedGauge(registry, {
      name: 'informer_unreadable_objects',
      help:
        'Cached objects of which a member cannot be read, because it is nested too deep; ' +
        'a warning in the log names each',
      labels: informer,
    });
    this.#lists = scrapedCounter(registry, {
      name: 'reflector_lists_total',
      help: 'Complete lists; each after the first of a namespace is a relist',
      labels: informer,
    });
    this.#listErrors = scrapedCounter(registry, {
      name: 'reflector_errors_total',
      help: 'Failed lists and watches; the start of a watch may stream a list',
      labels: [...informer, 'verb'],
    });
    this.#requests = scrapedCounter(registry, {
      name: 'rest_client_requests_total',
      help: 'Requests to the API server by status code, method and host',
      labels: ['code', 'host', 'method'],
    });
    this.#leading = scrapedGauge(registry, {
      name: 'leader_election_master_status',
      help: 'Whether this process holds the lease',
      labels: ['name'],
    });
    this.#transitions = scrapedGauge(registry, {
      name: 'leader_election_lease_transitions',
      help: 'How often the Lease has changed its holder, as the Lease says: the same number in all replicas',
      labels: ['name'],
    });
    this.#takeovers = scrapedCounter(registry, {
      name: 'leader_election_takeovers_total',
      help:
        'Times that this process began to lead, by why it could: the Lease was absent, released, expired, its holder ' +
        'crashed, or it was the own claim (`absence`, `release`, `expiry`, `crash`, `ownClaim`)',
      labels: ['name', 'reason'],
    });
    this.#fenceClosings = scrapedCounter(registry, {
      name: 'leader_election_fence_closings_total',
      help:
        'Times that this process could no longer write as leader, by why: it stopped (`stopped`), ' +
        'did not renew the Lease in time (`expiry`), or another has it (`taken`)',
      labels: ['name', 'reason'],
    });
    this.#perController = [
      this.#reconciles,
      this.#reconcileErrors,
      this.#terminalErrors,
      this.#panics,
      this.#timeouts,
      this.#activeWorkers,
      this.#maxWorkers,
      this.#queueDepth,
      this.#queueAdds,
      this.#queueRetries,
      this.#unfinishedSeconds,
      this.#longestSeconds,
      this.#stuck,
    ];
  }

  /** Creates the metrics of one controller. They start at zero at once, so that a rate includes the first increment. */
  reconciles(controller: string, workers: number): ReconcileObserver {
    const outcomes = { success: 0, error: 0, requeue_after: 0 };
    const failures = { terminal: 0, panic: 0, timeout: 0 };
    let active = 0;
    const label = { controller };
    for (const result of ['success', 'error', 'requeue_after'] as const) {
      this.#reconciles.add({ controller, result }, () => outcomes[result]);
    }
    this.#reconcileErrors.add(label, () => outcomes.error);
    this.#terminalErrors.add(label, () => failures.terminal);
    this.#panics.add(label, () => failures.panic);
    this.#timeouts.add(label, () => failures.timeout);
    this.#maxWorkers.add(label, () => workers);
    this.#activeWorkers.add(label, () => active);
    const times = this.#reconcileSeconds.distribution(label);
    const eventTimes = this.#eventSeconds.distribution(label);
    return {
      started: () => {
        active += 1;
      },
      finished: (outcome, seconds, failure) => {
        active -= 1;
        outcomes[outcome] += 1;
        if (failure !== undefined) failures[failure] += 1;
        times.observe(seconds);
      },
      followedEvent: (seconds) => eventTimes.observe(seconds),
    };
  }

  /** Creates the metrics of one controller's queue. */
  queue(controller: string): Required<QueueObserver> {
    const label = { name: controller, controller };
    const depth = this.#depthObserver(controller);
    const queueTimes = this.#queueSeconds.distribution(label);
    const workTimes = this.#workSeconds.distribution(label);
    /** When a worker started each key (performance.now). */
    const startTimes = new Map<string, number>();
    let adds = 0;
    let retries = 0;
    this.#queueAdds.add(label, () => adds);
    this.#queueRetries.add(label, () => retries);
    const ages = (): number[] => {
      const nowMs = performance.now();
      return [...startTimes.values()].map((startedMs) => (nowMs - startedMs) / 1000);
    };
    this.#unfinishedSeconds.add(label, () => sum(ages()));
    this.#longestSeconds.add(label, () => Math.max(0, ...ages()));
    this.#stuck.add({ controller }, () => ages().filter((seconds) => seconds > stuckAfterSeconds).length);
    return {
      added: () => {
        adds += 1;
      },
      retried: () => {
        retries += 1;
      },
      depth,
      waited: (seconds) => queueTimes.observe(seconds),
      started: (key) => {
        startTimes.set(key, performance.now());
      },
      finished: (key) => {
        const startedMs = startTimes.get(key);
        if (startedMs === undefined) return;
        startTimes.delete(key);
        workTimes.observe((performance.now() - startedMs) / 1000);
      },
    };
  }

  /**
   * Adds an informer. The informers of a resource (of several versions or namespaces) have one value: their sum, or the
   * longest time. Each view of a resource has values of its own.
   *
   * @param read is called at each scrape.
   * @param view the value of the label `view`. Default: no such label.
   * @returns a function that removes the informer.
   */
  informer(resource: string, read: () => CacheStatistics, view = ''): () => void {
    const id = `${resource} ${view}`;
    const { informers, remove } = this.#informers.get(id) ?? this.#addResource(id, resource, view);
    informers.add(read);
    return () => {
      informers.delete(read);
      if (informers.size > 0) return;
      this.#informers.delete(id);
      remove();
    };
  }

  #addResource(id: string, resource: string, view: string): ResourceInformers {
    const informers = new Set<() => CacheStatistics>();
    const values = <T>(value: (statistics: CacheStatistics) => T): T[] => [...informers].map((read) => value(read()));
    const labels = view === '' ? { resource } : { resource, view };
    const removals = [
      this.#eventAge.add(labels, () => {
        const ages = values(({ unconfirmedForMs }) => unconfirmedForMs).filter((ageMs) => ageMs !== undefined);
        return ages.length === 0 ? undefined : Math.max(...ages) / 1000;
      }),
      this.#cachedObjects.add(labels, () => sum(values(({ objects }) => objects))),
      this.#unreadableObjects.add(labels, () => sum(values(({ unreadableObjects }) => unreadableObjects))),
      this.#lists.add(labels, () => sum(values(({ lists }) => lists))),
      this.#listErrors.add({ ...labels, verb: 'list' }, () => sum(values(({ failedLists }) => failedLists))),
      this.#listErrors.add({ ...labels, verb: 'watch' }, () => sum(values(({ failedWatches }) => failedWatches))),
      this.#watchesReplaced.add(labels, () => sum(values(({ replacedWatches }) => replacedWatches))),
    ];
    const remove = (): void => {
      for (const removeReading of removals) removeReading();
    };
    const added = { informers, remove };
    this.#informers.set(id, added);
    return added;
  }

  /** Removes the metrics of a controller and its queue. A later controller with the same name starts at zero. */
  removeController(controller: string): void {
    for (const readings of this.#perController) readings.remove('controller', controller);
    for (const times of [this.#reconcileSeconds, this.#eventSeconds, this.#queueSeconds, this.#workSeconds]) {
      times.removeDistributions('controller', controller);
    }
  }

  /** Returns an observer that counts the requests to one host. */
  requests(host: string): RequestObserver {
    const counts = new Map<string, Map<string, { value: number }>>();
    const addCount = (method: string, code: string): { value: number } => {
      const byCode = counts.get(method) ?? new Map<string, { value: number }>();
      const count = { value: 0 };
      counts.set(method, byCode.set(code, count));
      this.#requests.add({ code, host, method }, () => count.value);
      return count;
    };
    return (method, code) => {
      const count = counts.get(method)?.get(code) ?? addCount(method, code);
      count.value += 1;
    };
  }

  /** Returns an observer for the elector of one lease. The metric is 0 until the elector reports that it leads. */
  leader(lease: string): Required<LeaderObserver> {
    let leading = false;
    const takeovers = { absence: 0, release: 0, crash: 0, expiry: 0, ownClaim: 0 };
    const closings = { stopped: 0, expiry: 0, taken: 0 };
    this.#leading.add({ name: lease }, () => (leading ? 1 : 0));
    for (const reason of Object.keys(takeovers) as TakeoverReason[]) {
      this.#takeovers.add({ name: lease, reason }, () => takeovers[reason]);
    }
    for (const reason of Object.keys(closings) as FenceClosingReason[]) {
      this.#fenceClosings.add({ name: lease, reason }, () => closings[reason]);
    }
    return {
      changed: (isLeading) => {
        leading = isLeading;
      },
      tookOver: (reason) => {
        takeovers[reason] += 1;
      },
      fenceClosed: (reason) => {
        closings[reason] += 1;
      },
    };
  }

  /**
   * Adds the number of holders that a lease has had. @param read is called at each scrape; undefined: not known yet.
   */
  leaseTransitions(lease: string, read: () => number | undefined): void {
    this.#transitions.add({ name: lease }, read);
  }

  #depthObserver(controller: string): (items: number, priority?: number) => void {
    const byPriority = new Map<number, number>();
    const addReading = (priority: string, value: () => number): void => {
      this.#queueDepth.add({ name: controller, controller, priority }, value);
    };
    const others = new Map<number, number>();
    const addPriority = (priority: number): void => {
      if (byPriority.size < maxPriorities) {
        addReading(String(priority), () => byPriority.get(priority) ?? 0);
        byPriority.set(priority, 0);
      } else if (others.size === 0) {
        addReading('exceeded_cardinality_limit', () => sum(others.values()));
      }
    };
    addPriority(0);
    return (items, priority = 0) => {
      if (!byPriority.has(priority)) addPriority(priority);
      (byPriority.has(priority) ? byPriority : others).set(priority, items);
    };
  }
}

/** The informers of one view of a resource. */
interface ResourceInformers {
  readonly informers: Set<() => CacheStatistics>;
  /** Removes their metrics. */
  readonly remove: () => void;
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
