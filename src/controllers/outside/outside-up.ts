import { Gauge, type Registry } from 'prom-client';

const name = 'echoperator_outside_up';

/** Adds a system to the metric that shows whether it can be used, initially 1. Returns a function that sets the value. */
export function outsideUp(registry: Registry, system: string): (up: boolean) => void {
  const known = registry.getSingleMetric(name);
  const gauge =
    known instanceof Gauge
      ? known
      : new Gauge({
          name,
          help: 'Whether `postgres` or `petstore` can be used: 1, or 0 while calls to it wait.',
          labelNames: ['system'],
          registers: [registry],
        });
  gauge.set({ system }, 1);
  return (up) => gauge.set({ system }, up ? 1 : 0);
}
