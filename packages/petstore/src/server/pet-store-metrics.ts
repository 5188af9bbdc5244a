import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { PetDatabase } from './pet-database.ts';

/** In seconds: a read takes half a millisecond, a long search ten seconds. */
const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The pet store's metrics and the default ones of Node. */
export class PetStoreMetrics {
  readonly registry = new Registry();
  readonly #requests: Counter<'method' | 'code'>;
  readonly #durations: Histogram<'method'>;

  constructor(database: Pick<PetDatabase, 'count' | 'searches'>) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.#requests = new Counter({
      name: 'petstore_requests_total',
      help: 'Completed requests, by method and gRPC code.',
      labelNames: ['method', 'code'],
      registers,
    });
    this.#durations = new Histogram({
      name: 'petstore_request_duration_seconds',
      help: 'Duration of requests; of a stream, until its end.',
      labelNames: ['method'],
      buckets,
      registers,
    });
    new Gauge({
      name: 'petstore_pets',
      help: 'Pets in the pet store.',
      registers,
      collect() {
        this.set(database.count());
      },
    });
    new Gauge({
      name: 'petstore_searches',
      help: 'Searches in flight.',
      registers,
      collect() {
        this.set(database.searches);
      },
    });
  }

  recordRequest(method: string, code: string, seconds: number): void {
    this.#requests.inc({ method, code });
    this.#durations.observe({ method }, seconds);
  }
}
