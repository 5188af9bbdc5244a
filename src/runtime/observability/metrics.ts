import type { Registry } from 'prom-client';
import type { RequestObserver } from '../client/index.ts';
import type { QueueObserver } from '../queue/index.ts';
import { type Readings, ScrapedHistogram, scrapedCounter, scrapedGauge } from './scraped.ts';

/** controller-runtime's buckets for the time of a reconcile, in seconds. */
const reconcileBuckets = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2,
  2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
];

/** client-go's buckets for the work queue: 10 ns to 1,000 s, tenfold. */
const queueBuckets = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000];

/** Priorities beyond so many share one label, as in controller-runtime: a label's values must be few. */
const maxPriorities = 25;

/** How a reconcile ended, in controller-runtime's words. */
export type ReconcileOutcome = 'success' | 'error' | 'requeue_after';

/**
 * What there is to say of a reconcile beside its outcome: `terminal`, its error is not tried again; `panic`, it threw
 * what only a defect throws (no Error, or a TypeError, ReferenceError or RangeError: what would be a panic in Go);
 * `timeout`, it was still running when its time was over.
 */
export type ReconcileFailure = 'terminal' | 'panic' | 'timeout';

/** What a controller reports of each reconcile. */
export interface ReconcileObserver {
  started(): void;
  /** @param failure also where the outcome is none: a reconcile may end well after its time. */
  finished(outcome: ReconcileOutcome, seconds: number, failure?: ReconcileFailure): void;
}

/** What a leader elector reports. */
export interface LeaderObserver {
  changed(leading: boolean): void;
}

/**
 * The runtime's metrics, under the names, labels and buckets of controller-runtime and client-go, so that dashboards
 * made for operators in Go work; one more counts what those have no name for. Observing is cheap: plain numbers, which are read when somebody scrapes.
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
  readonly #watchesReplaced: Readings<'controller' | 'resource'>;
  readonly #requests: Readings<'code' | 'host' | 'method'>;
  readonly #leading: Readings<'name'>;
  /** Those with the label `controller`, but for the histograms. */
  readonly #ofControllers: readonly { remove(label: 'controller', controller: string): void }[];

  constructor(registry: Registry) {
    const controller = ['controller'] as const;
    const queue = ['name', 'controller'] as const;
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
      help: 'Reconciles that failed and are not tried again, per controller',
      labels: controller,
    });
    this.#panics = scrapedCounter(registry, {
      name: 'controller_runtime_reconcile_panics_total',
      help: 'Reconciles that failed by a defect, per controller',
      labels: controller,
    });
    this.#timeouts = scrapedCounter(registry, {
      name: 'controller_runtime_reconcile_timeouts_total',
      help: 'Reconciles that did not end in their time, per controller',
      labels: controller,
    });
    this.#reconcileSeconds = new ScrapedHistogram(registry, {
      name: 'controller_runtime_reconcile_time_seconds',
      help: 'Time of a reconcile per controller',
      labels: controller,
      buckets: reconcileBuckets,
    });
    this.#activeWorkers = scrapedGauge(registry, {
      name: 'controller_runtime_active_workers',
      help: 'Workers that are reconciling, per controller',
      labels: controller,
    });
    this.#maxWorkers = scrapedGauge(registry, {
      name: 'controller_runtime_max_concurrent_reconciles',
      help: 'Workers per controller',
      labels: controller,
    });
    this.#queueDepth = scrapedGauge(registry, {
      name: 'workqueue_depth',
      help: 'Keys that wait for a worker, by priority',
      labels: ['name', 'controller', 'priority'],
    });
    this.#queueAdds = scrapedCounter(registry, {
      name: 'workqueue_adds_total',
      help: 'Keys added to the queue',
      labels: queue,
    });
    this.#queueRetries = scrapedCounter(registry, {
      name: 'workqueue_retries_total',
      help: 'Keys to be added after a pause: after a failure, or because a reconcile asked for it',
      labels: queue,
    });
    this.#queueSeconds = new ScrapedHistogram(registry, {
      name: 'workqueue_queue_duration_seconds',
      help: 'Time that a key waited for a worker',
      labels: queue,
      buckets: queueBuckets,
    });
    this.#workSeconds = new ScrapedHistogram(registry, {
      name: 'workqueue_work_duration_seconds',
      help: 'Time that a worker had a key',
      labels: queue,
      buckets: queueBuckets,
    });
    this.#unfinishedSeconds = scrapedGauge(registry, {
      name: 'workqueue_unfinished_work_seconds',
      help: 'Time that the workers have had their present keys, all together',
      labels: queue,
    });
    this.#longestSeconds = scrapedGauge(registry, {
      name: 'workqueue_longest_running_processor_seconds',
      help: 'Time that a worker has had its present key, of the one that has had it longest',
      labels: queue,
    });
    this.#watchesReplaced = scrapedCounter(registry, {
      name: 'informer_watches_replaced_total',
      help: 'Watches replaced because they had not brought a write of the controller in time',
      labels: ['controller', 'resource'],
    });
    this.#requests = scrapedCounter(registry, {
      name: 'rest_client_requests_total',
      help: 'Requests to the API server by status code, method and host',
      labels: ['code', 'host', 'method'],
    });
    this.#leading = scrapedGauge(registry, {
      name: 'leader_election_master_status',
      help: 'Whether this process holds the lease of that name',
      labels: ['name'],
    });
    this.#ofControllers = [
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
      this.#watchesReplaced,
    ];
  }

  /** For one controller with that many workers. Its values are there from the start, so that no rate misses a step. */
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
    };
  }

  /** For one controller's queue. */
  queue(controller: string): Required<QueueObserver> {
    const label = { name: controller, controller };
    const depths = this.#depths(controller);
    const waits = this.#queueSeconds.distribution(label);
    const works = this.#workSeconds.distribution(label);
    /** Since when a worker has the key (performance.now). */
    const working = new Map<string, number>();
    let adds = 0;
    let retries = 0;
    this.#queueAdds.add(label, () => adds);
    this.#queueRetries.add(label, () => retries);
    const ages = (): number[] => {
      const nowMs = performance.now();
      return [...working.values()].map((sinceMs) => (nowMs - sinceMs) / 1000);
    };
    this.#unfinishedSeconds.add(label, () => sum(ages()));
    this.#longestSeconds.add(label, () => Math.max(0, ...ages()));
    return {
      added: () => {
        adds += 1;
      },
      retried: () => {
        retries += 1;
      },
      depth: depths,
      waited: (seconds) => waits.observe(seconds),
      started: (key) => {
        working.set(key, performance.now());
      },
      finished: (key) => {
        const sinceMs = working.get(key);
        if (sinceMs === undefined) return;
        working.delete(key);
        works.observe((performance.now() - sinceMs) / 1000);
      },
    };
  }

  /** For one controller: counts a watch of a resource that was replaced. */
  watchesReplaced(controller: string): (resource: string) => void {
    const counts = new Map<string, number>();
    return (resource) => {
      if (!counts.has(resource)) this.#watchesReplaced.add({ controller, resource }, () => counts.get(resource) ?? 0);
      counts.set(resource, (counts.get(resource) ?? 0) + 1);
    };
  }

  /** Exposes nothing more of a controller and its queue. One that is added under its name later begins at zero. */
  removeController(controller: string): void {
    for (const readings of this.#ofControllers) readings.remove('controller', controller);
    for (const times of [this.#reconcileSeconds, this.#queueSeconds, this.#workSeconds]) {
      times.removeDistributions('controller', controller);
    }
  }

  /** For the transport to one host. */
  requests(host: string): RequestObserver {
    const counts = new Map<string, Map<string, { value: number }>>();
    const begin = (method: string, code: string): { value: number } => {
      const byCode = counts.get(method) ?? new Map<string, { value: number }>();
      const count = { value: 0 };
      counts.set(method, byCode.set(code, count));
      this.#requests.add({ code, host, method }, () => count.value);
      return count;
    };
    return (method, code) => {
      const count = counts.get(method)?.get(code) ?? begin(method, code);
      count.value += 1;
    };
  }

  /** For the elector of one lease; until it says otherwise it does not lead. */
  leader(lease: string): LeaderObserver {
    let leads = false;
    this.#leading.add({ name: lease }, () => (leads ? 1 : 0));
    return {
      changed: (leading) => {
        leads = leading;
      },
    };
  }

  #depths(controller: string): (items: number, priority?: number) => void {
    const byPriority = new Map<number, number>();
    const read = (priority: string, value: () => number): void =>
      this.#queueDepth.add({ name: controller, controller, priority }, value);
    const others = new Map<number, number>();
    const begin = (priority: number): void => {
      if (byPriority.size < maxPriorities) {
        read(String(priority), () => byPriority.get(priority) ?? 0);
        byPriority.set(priority, 0);
      } else if (others.size === 0) {
        read('exceeded_cardinality_limit', () => sum(others.values()));
      }
    };
    begin(0);
    return (items, priority = 0) => {
      if (!byPriority.has(priority)) begin(priority);
      (byPriority.has(priority) ? byPriority : others).set(priority, items);
    };
  }
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
