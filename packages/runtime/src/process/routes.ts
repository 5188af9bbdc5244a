import type { Readiness } from '../manager/manager.ts';
import type { Route } from '../observability/http-server.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Liveness } from './liveness.ts';

/**
 * Creates the routes of the liveness probe (`/healthz`) and the readiness probe (`/readyz`). A failed probe responds
 * with 503 and the reasons.
 *
 * @param subject an operator, or a manager that runs without leader election.
 * @param liveness Default: the process is healthy if it responds.
 */
export function probeRoutes(
  subject: { readiness(): Readiness },
  liveness?: Pick<Liveness, 'problems'>,
): Readonly<Record<'/healthz' | '/readyz', Route>> {
  return {
    '/healthz': async () => {
      const problems = (await liveness?.problems()) ?? [];
      return problems.length === 0 ? { code: 200, text: 'ok\n' } : { code: 503, text: `${problems.join('\n')}\n` };
    },
    '/readyz': () => {
      const readiness = subject.readiness();
      return readiness.ready ? { code: 200, text: 'ok\n' } : { code: 503, text: `${reasonOf(readiness)}\n` };
    },
  };
}

function reasonOf({ waitingFor, lease, unlistedLeases, conflict, service }: Readiness): string {
  if (conflict !== undefined) return `waiting: ${conflict}`;
  if (unlistedLeases !== undefined) {
    return `waiting for the list of leases in ${unlistedLeases}: another operator may work in the same namespaces`;
  }
  if (lease !== undefined) return `waiting to know who holds the lease ${lease}`;
  if (service !== undefined) return `waiting for ${service}`;
  return waitingFor.length === 0 ? 'stopping' : `waiting for the cache of ${waitingFor.join(', ')}`;
}

/** Creates the route that exposes the registry of the metrics to Prometheus. */
export function metricsRoute({ registry }: Pick<Metrics, 'registry'>): Route {
  return async () => ({ code: 200, contentType: registry.contentType, text: await registry.metrics() });
}
