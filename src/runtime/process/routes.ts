import type { Readiness } from '../manager/index.ts';
import type { Metrics, Route } from '../observability/index.ts';
import type { Liveness } from './liveness.ts';

/**
 * Answers a liveness probe (`/healthz`), which names what is wrong, and a readiness probe (`/readyz`), which names what it
 * waits for.
 *
 * @param subject an operator, or a manager that runs without leader election.
 * @param liveness default: the process is alive if it answers.
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

function reasonOf({ waitingFor, lease }: Readiness): string {
  if (lease !== undefined) return `waiting to know who holds the lease ${lease}`;
  return waitingFor.length === 0 ? 'stopping' : `waiting for the cache of ${waitingFor.join(', ')}`;
}

/** Answers Prometheus with all that is in the registry of the metrics. */
export function metricsRoute({ registry }: Pick<Metrics, 'registry'>): Route {
  return async () => ({ code: 200, contentType: registry.contentType, text: await registry.metrics() });
}
