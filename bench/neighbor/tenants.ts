import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Namespace } from '@echoperator/runtime/kinds';
import { type ApiServer, startApiServer } from '../api-server.ts';
import { watchOthers } from '../disturbance.ts';
import { burst, connectWriters, steady, writers } from '../load.ts';
import type { Measure } from '../measurements.ts';
import type { Operator } from '../operators.ts';
import type { Turn } from '../results.ts';
import { RunningOperator } from '../running-operator.ts';
import { quantile } from '../statistics.ts';
import { Stopwatch } from '../stopwatch.ts';
import type { RunContext } from '../turns.ts';

/** The namespace of the busy tenant. The other tenant has the namespace of all other measurements. */
export const busyNamespace = 'busy';

/** The Echos that the quiet tenant creates per second. */
export const quietPerSecond = 4;

const quietPrefix = 'quiet-';
export const busyPrefix = 'busy-';

/** The time that an Echo of the quiet tenant may take after the last one was created. */
export const quietTimeoutMs = 30_000;

/** Two tenants of one operator, on an API server that no other operator uses. */
export class Tenants {
  readonly server: ApiServer;
  readonly #context: RunContext;
  readonly #stopwatch: Stopwatch;

  private constructor(server: ApiServer, context: RunContext, stopwatch: Stopwatch) {
    this.server = server;
    this.#context = context;
    this.#stopwatch = stopwatch;
  }

  /** @param work returns the figures besides the quiet tenant's waits */
  static async measure(
    operator: Operator,
    context: RunContext,
    options: { readonly auditPolicy?: string },
    work: (tenants: Tenants) => Promise<Turn['figures']>,
  ): Promise<{ readonly turn: Turn; readonly auditLog: string }> {
    const { folder, plan, signal } = context;
    const server = await startApiServer(folder, options);
    try {
      await server.client.create(Namespace, { metadata: { name: busyNamespace } });
      const running = await RunningOperator.start(operator, server, join(folder, `${operator.name}.log`));
      // A tenant waits for the child of its object.
      const stopwatch = await Stopwatch.start(server.client, { job: () => true, echo: () => true });
      try {
        await delay(plan.settleMs, undefined, { signal });
        await connectWriters(server.client, writers);
        const others = await watchOthers();
        const figures = await work(new Tenants(server, context, stopwatch));
        return { turn: { figures, disturbance: await others() }, auditLog: server.auditLog };
      } finally {
        await stopwatch.stop();
        await running.stop();
      }
    } finally {
      await server.stop();
    }
  }

  /** The busy tenant creates its Echos at once. @returns their names, in the order of their creation */
  async createBusy(count: number): Promise<readonly string[]> {
    const names: string[] = [];
    const created = ({ metadata }: { readonly metadata: { readonly name: string } }) => names.push(metadata.name);
    await burst(this.server.client, busyPrefix, count, created, busyNamespace);
    return names;
  }

  /**
   * The quiet tenant creates Echos at an even pace while `work` runs, and for at least five seconds.
   *
   * @param measures the names of the median and the 99th percentile of its waits in milliseconds. An Echo without a Job
   *   after 30 more seconds counts with the time that it has waited until then.
   */
  async quietWhile<T>(
    work: () => Promise<T>,
    [p50, p99]: readonly [Measure, Measure],
  ): Promise<readonly [T, Turn['figures']]> {
    const { signal } = this.#context;
    const stopped = new AbortController();
    const creating = steady(
      this.server.client,
      quietPrefix,
      { perSecond: quietPerSecond, count: Number.POSITIVE_INFINITY },
      ({ metadata }, dueAtMs) => this.#stopwatch.created(metadata.name, dueAtMs),
      AbortSignal.any([signal, stopped.signal]),
    );
    // Awaited below, unless `work` fails.
    creating.catch(() => {});
    let result: T;
    try {
      [result] = await Promise.all([work(), delay(5000, undefined, { signal })]);
    } finally {
      stopped.abort();
    }
    await creating;
    const late = AbortSignal.timeout(quietTimeoutMs);
    await this.#stopwatch.served(this.#stopwatch.createdCount, AbortSignal.any([signal, late])).catch(() => {});
    signal.throwIfAborted();
    const waits = this.#stopwatch.waits(quietPrefix, performance.now());
    return [result, { [p50]: quantile(waits, 0.5), [p99]: quantile(waits, 0.99) }];
  }
}
