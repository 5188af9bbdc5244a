import { Gauge, type Registry } from 'prom-client';

const name = 'echoperator_external_system_up';

/** The state of an external system, read at each scrape. */
export interface ExternalSystemState {
  /** Whether the circuit of the system is open. */
  readonly isDown: () => boolean;
  /** Whether an object waits for the system. Called only while the system is down. */
  readonly isAwaited: () => boolean;
}

/** Shows for each external system whether it can be used. */
class ExternalSystemUp extends Gauge<'system'> {
  readonly #states = new Map<string, ExternalSystemState>();

  constructor(registry: Registry) {
    const help = 'Whether `postgres` or `petstore` can be used: 1, or 0 while it is down and an object waits for it.';
    super({ name, help, labelNames: ['system'], registers: [registry] });
  }

  add(system: string, state: ExternalSystemState): void {
    this.#states.set(system, state);
  }

  override get(): ReturnType<Gauge<'system'>['get']> {
    for (const [system, { isDown, isAwaited }] of this.#states) {
      this.set({ system }, isDown() && isAwaited() ? 0 : 1);
    }
    return super.get();
  }
}

/**
 * Adds an external system to the metric that shows whether it can be used. A circuit closes only when a call succeeds.
 * Without waiting objects nothing probes, so the metric then reports that the system is up.
 */
export function externalSystemUp(registry: Registry, system: string, state: ExternalSystemState): void {
  const known = registry.getSingleMetric(name);
  const gauge = known instanceof ExternalSystemUp ? known : new ExternalSystemUp(registry);
  gauge.add(system, state);
}
