import type { Kind, ObjectKey } from '@echoperator/runtime';
import { resourceName } from '@echoperator/runtime/client';
import { Lease } from '@echoperator/runtime/kinds';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { echoManifest } from '../../../testkit/echos.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';

/** How the operator has fared while it handled objects. */
export interface Measured {
  /** The longest pause of its event loop, in milliseconds. */
  readonly pauseMs: number;
  /** How long another namespace's Echo took to get its Job, in milliseconds. */
  readonly echoMs: number;
}

/** The operator does not recover within the time that a test waits. */
export class StuckError extends Error {
  override readonly name = 'StuckError';
}

/** For how long an operator that has handled everything reconciles nothing. */
const quietMs = 500;

/** A leader whose event loop is watched. Its metric of the longest pause begins anew with each scrape. */
export class MeasuredOperator {
  readonly #cluster: TestCluster;
  readonly #settings: Readonly<Record<string, string>>;
  readonly #namespace: string;
  #operator: OperatorProcess | undefined;
  #pauseMs = 0;
  #echos = 0;

  /** @param namespace of the Lease, and of the Echos that nothing must delay */
  constructor(cluster: TestCluster, namespace: string, settings: Readonly<Record<string, string>>) {
    this.#cluster = cluster;
    this.#namespace = namespace;
    this.#settings = { ...settings, HA_ENABLED: 'true', NAMESPACE: namespace };
  }

  async start(): Promise<void> {
    this.#operator = await OperatorProcess.start(this.#cluster.kubeconfig, this.#settings);
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<string> {
    const operator = this.#operator;
    this.#operator = undefined;
    return (await operator?.stop(signal).catch((error: unknown) => ({ output: String(error) })))?.output ?? '';
  }

  /** The holder of the Lease and how often it has changed. */
  async lease(): Promise<string> {
    const { spec } = await this.#cluster.client.get(Lease, { namespace: this.#namespace, name: 'echoperator' });
    return `${spec?.holderIdentity} ${spec?.leaseTransitions}`;
  }

  /**
   * Measures from the beginning of `act` until the operator has handled what it stored.
   *
   * @param kinds of what `act` stores. `mark` stores a small object of a kind after that.
   * @throws StuckError if that takes longer than `limitMs`
   */
  async measure(
    act: () => Promise<void>,
    { kinds, mark, limitMs }: { kinds: readonly Kind[]; mark: (kind: Kind) => Promise<void>; limitMs: number },
  ): Promise<Measured> {
    await this.#scrape();
    this.#pauseMs = 0;
    await act();
    // Before the mark, whose event may arrive before its response.
    const storedAtMs = performance.now();
    for (const kind of kinds) await mark(kind);
    const key = { namespace: this.#namespace, name: `beside-${this.#echos++}` };
    await this.#cluster.client.create(Echo, echoManifest(key, { message: 'beside' }));
    try {
      const [echoMs] = await Promise.all([
        this.#served(key, storedAtMs, limitMs),
        this.#handled(kinds, storedAtMs, limitMs),
      ]);
      return { pauseMs: this.#pauseMs, echoMs };
    } catch (cause) {
      throw new StuckError(cause instanceof Error ? cause.message : String(cause), { cause });
    } finally {
      await this.#cluster.client.delete(Echo, key);
    }
  }

  async #served(key: ObjectKey, sinceMs: number, limitMs: number): Promise<number> {
    const isServed = async () => (await this.#cluster.client.get(Echo, key)).status?.jobName !== undefined;
    await eventually('the Echo beside it is served', isServed, limitMs);
    return performance.now() - sinceMs;
  }

  /**
   * Waits until each kind's cache has had an event since, and no key waits or was reconciled for a while: children have
   * events too.
   */
  async #handled(kinds: readonly Kind[], sinceMs: number, limitMs: number): Promise<void> {
    let reconciles = -1;
    let quietSinceMs = 0;
    const isHandled = async () => {
      const scrapedAtMs = performance.now();
      const metrics = await this.#scrape();
      const sum = (name: string) => numbers(metrics, name).reduce((one, other) => one + other, 0);
      const isCached = kinds.every((kind) => {
        const age = numbers(metrics, `informer_last_event_age_seconds{resource="${resourceName(kind)}"}`)[0];
        return age !== undefined && age * 1000 < scrapedAtMs - sinceMs;
      });
      const isIdle = isCached && sum('workqueue_depth') === 0 && sum('controller_runtime_active_workers') === 0;
      if (!isIdle || sum('controller_runtime_reconcile_total') !== reconciles) {
        reconciles = sum('controller_runtime_reconcile_total');
        quietSinceMs = scrapedAtMs;
      }
      return isIdle && scrapedAtMs - quietSinceMs >= quietMs;
    };
    await eventually('the operator has handled the objects', isHandled, limitMs);
  }

  async #scrape(): Promise<string> {
    if (this.#operator === undefined) throw new StuckError('the operator does not run');
    const operator = this.#operator;
    // The second time on a new connection: the server closes idle ones.
    const text = await operator
      .metrics()
      .catch(() => operator.metrics())
      .catch((cause: unknown) => {
        throw new StuckError('the operator does not answer', { cause });
      });
    const [maxSeconds = 0] = numbers(text, 'nodejs_eventloop_lag_max_seconds');
    this.#pauseMs = Math.max(this.#pauseMs, maxSeconds * 1000);
    return text;
  }
}

/** The values of a metric's series; or of one series, if the name has labels. */
function numbers(metrics: string, name: string): readonly number[] {
  const lines = metrics.split('\n').filter((line) => line.startsWith(name) && /^[ {]/.test(line.slice(name.length)));
  return lines.map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
}
