import type { V1Job } from '@kubernetes/client-node';
import { cronJobKey } from '../../../testkit/cron-job-key.ts';
import type { E2eCluster } from '../../e2e/environment/cluster.ts';

/** The ScheduledEchos of a test's namespace, as their user has them. */
export class ScheduledEchos {
  readonly #cluster: E2eCluster;
  readonly #namespace: string;

  private constructor(cluster: E2eCluster, namespace: string) {
    this.#cluster = cluster;
    this.#namespace = namespace;
  }

  static async inNewNamespace(cluster: E2eCluster): Promise<ScheduledEchos> {
    return new ScheduledEchos(cluster, await cluster.namespace());
  }

  /** Has its namespace deleted: its CronJobs make no more Jobs. */
  async end(): Promise<void> {
    await this.#cluster.deleteNamespace(this.#namespace);
  }

  async apply(name: string, spec: object): Promise<void> {
    const metadata = { name, namespace: this.#namespace };
    await this.#cluster.apply({ apiVersion: 'mmontes.io/v1alpha1', kind: 'ScheduledEcho', metadata, spec });
  }

  kubectl(...args: readonly string[]): Promise<string> {
    return this.#cluster.kubectl([...args, '--namespace', this.#namespace]);
  }

  get<T>(...args: readonly string[]): Promise<T> {
    return this.#cluster.get<T>(...args, '--namespace', this.#namespace);
  }

  /** Waits until the condition Ready has this reason. */
  async ready(name: string, reason: string): Promise<void> {
    const condition = `jsonpath={.status.conditions[?(@.type=="Ready")].reason}=${reason}`;
    await this.kubectl('wait', `--for=${condition}`, `scheduledecho/${name}`, '--timeout=60s');
  }

  /** What the Jobs of a ScheduledEcho that have completed have printed. */
  async printedBy(name: string): Promise<readonly string[]> {
    const { items } = await this.get<{ items: V1Job[] }>('jobs');
    const completed = items.filter(
      ({ metadata, status }) =>
        metadata?.ownerReferences?.[0]?.name === cronJobKey({ name }).name && (status?.succeeded ?? 0) > 0,
    );
    return Promise.all(completed.map(({ metadata }) => this.#cluster.logOf(metadata?.name ?? '', this.#namespace)));
  }
}
