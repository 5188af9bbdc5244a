import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { RequestObserver } from '../client/index.ts';
import type { QueueObserver } from '../queue/index.ts';

/** controller-runtime's buckets for the time of a reconcile, in seconds. */
const reconcileBuckets = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2,
  2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
];

/** client-go's buckets for the work queue: 10 ns to 1,000 s, tenfold. */
const queueBuckets = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000];

/** How a reconcile ended, in controller-runtime's words. */
export type ReconcileOutcome = 'success' | 'error' | 'requeue_after';

/** What a controller reports of each reconcile. */
export interface ReconcileObserver {
  started(): void;
  finished(outcome: ReconcileOutcome, seconds: number): void;
}

/**
 * The runtime's metrics, under the names, labels and buckets of controller-runtime and client-go, so that dashboards
 * made for operators in Go work.
 */
export class Metrics {
  readonly registry: Registry;
  readonly #reconciles: Counter<'controller' | 'result'>;
  readonly #reconcileErrors: Counter<'controller'>;
  readonly #reconcileSeconds: Histogram<'controller'>;
  readonly #activeWorkers: Gauge<'controller'>;
  readonly #maxWorkers: Gauge<'controller'>;
  readonly #queueDepth: Gauge<'name' | 'controller'>;
  readonly #queueAdds: Counter<'name' | 'controller'>;
  readonly #queueRetries: Counter<'name' | 'controller'>;
  readonly #queueSeconds: Histogram<'name' | 'controller'>;
  readonly #requests: Counter<'code' | 'host' | 'method'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const queueLabels = ['name', 'controller'] as const;
    this.registry = registry;
    this.#reconciles = new Counter({
      name: 'controller_runtime_reconcile_total',
      help: 'Reconciles per controller and result',
      labelNames: ['controller', 'result'],
      registers,
    });
    this.#reconcileErrors = new Counter({
      name: 'controller_runtime_reconcile_errors_total',
      help: 'Failed reconciles per controller',
      labelNames: ['controller'],
      registers,
    });
    this.#reconcileSeconds = new Histogram({
      name: 'controller_runtime_reconcile_time_seconds',
      help: 'Time of a reconcile per controller',
      labelNames: ['controller'],
      buckets: reconcileBuckets,
      registers,
    });
    this.#activeWorkers = new Gauge({
      name: 'controller_runtime_active_workers',
      help: 'Workers that are reconciling, per controller',
      labelNames: ['controller'],
      registers,
    });
    this.#maxWorkers = new Gauge({
      name: 'controller_runtime_max_concurrent_reconciles',
      help: 'Workers per controller',
      labelNames: ['controller'],
      registers,
    });
    this.#queueDepth = new Gauge({
      name: 'workqueue_depth',
      help: 'Keys that wait for a worker',
      labelNames: queueLabels,
      registers,
    });
    this.#queueAdds = new Counter({
      name: 'workqueue_adds_total',
      help: 'Keys added to the queue',
      labelNames: queueLabels,
      registers,
    });
    this.#queueRetries = new Counter({
      name: 'workqueue_retries_total',
      help: 'Keys added again after a failure',
      labelNames: queueLabels,
      registers,
    });
    this.#queueSeconds = new Histogram({
      name: 'workqueue_queue_duration_seconds',
      help: 'Time that a key waited for a worker',
      labelNames: queueLabels,
      buckets: queueBuckets,
      registers,
    });
    this.#requests = new Counter({
      name: 'rest_client_requests_total',
      help: 'Requests to the API server by status code, method and host',
      labelNames: ['code', 'host', 'method'],
      registers,
    });
  }

  /** For one controller with that many workers. */
  reconciles(controller: string, workers: number): ReconcileObserver {
    const label = { controller };
    // Known labels start at zero: a rate over a series that appears late misses its first step.
    for (const result of ['success', 'error', 'requeue_after']) this.#reconciles.inc({ controller, result }, 0);
    this.#reconcileErrors.inc(label, 0);
    this.#maxWorkers.set(label, workers);
    this.#activeWorkers.set(label, 0);
    return {
      started: () => this.#activeWorkers.inc(label),
      finished: (result, seconds) => {
        this.#activeWorkers.dec(label);
        this.#reconciles.inc({ controller, result });
        if (result === 'error') this.#reconcileErrors.inc(label);
        this.#reconcileSeconds.observe(label, seconds);
      },
    };
  }

  /** For one controller's queue. */
  queue(controller: string): QueueObserver {
    const label = { name: controller, controller };
    this.#queueDepth.set(label, 0);
    this.#queueAdds.inc(label, 0);
    this.#queueRetries.inc(label, 0);
    return {
      added: () => this.#queueAdds.inc(label),
      retried: () => this.#queueRetries.inc(label),
      depth: (items) => this.#queueDepth.set(label, items),
      waited: (seconds) => this.#queueSeconds.observe(label, seconds),
    };
  }

  /** For the transport to one host. */
  requests(host: string): RequestObserver {
    return (method, code) => this.#requests.inc({ code, host, method });
  }
}
