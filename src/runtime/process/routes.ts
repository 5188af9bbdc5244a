import type { Manager } from '../manager/index.ts';
import type { Metrics, Route } from '../observability/index.ts';

/** Answers a liveness probe (`/healthz`) and a readiness probe (`/readyz`), which names the caches it waits for. */
export function probeRoutes(manager: Pick<Manager, 'readiness'>): Readonly<Record<'/healthz' | '/readyz', Route>> {
  return {
    '/healthz': () => ({ code: 200, text: 'ok\n' }),
    '/readyz': () => {
      const { ready, waitingFor } = manager.readiness();
      if (ready) return { code: 200, text: 'ok\n' };
      const why = waitingFor.length === 0 ? 'stopping' : `waiting for the cache of ${waitingFor.join(', ')}`;
      return { code: 503, text: `${why}\n` };
    },
  };
}

/** Answers Prometheus with all that is in the registry of the metrics. */
export function metricsRoute({ registry }: Pick<Metrics, 'registry'>): Route {
  return async () => ({ code: 200, contentType: registry.contentType, text: await registry.metrics() });
}
