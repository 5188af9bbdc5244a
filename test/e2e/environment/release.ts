import { join } from 'node:path';
import type { E2eCluster, HelmName } from './cluster.ts';

const chart = join(import.meta.dirname, '../../../charts/echoperator');
const name = 'echoperator';

/** A release of the chart in its own namespace. */
export class Release {
  readonly namespace: string;
  readonly #cluster: E2eCluster;
  readonly #helmName: HelmName;

  private constructor(cluster: E2eCluster, namespace: string, helm: HelmName = 'helm') {
    this.#cluster = cluster;
    this.#helmName = helm;
    this.namespace = namespace;
  }

  /** Returns the release of a namespace. */
  static in(cluster: E2eCluster, namespace: string, helm?: HelmName): Release {
    return new Release(cluster, namespace, helm);
  }

  /** Installs the chart and waits until the operator is ready. */
  static async install(cluster: E2eCluster, flags: readonly string[] = [], chartFolder = chart): Promise<Release> {
    const release = new Release(cluster, await cluster.namespace());
    try {
      await release.upgrade(flags, chartFolder);
    } catch (error) {
      await release.uninstall();
      throw error;
    }
    return release;
  }

  /** Runs `helm upgrade --install` with only the values of `flags`. Without --reset-values, Helm keeps earlier ones. */
  async upgrade(flags: readonly string[] = [], chartFolder = chart): Promise<void> {
    const wait = ['--wait', '--timeout=120s'];
    await this.#helm('upgrade', '--install', name, chartFolder, '--reset-values', ...wait, ...flags);
  }

  /** @param revision default: the one before the last */
  async rollback(revision = 0): Promise<void> {
    await this.#helm('rollback', name, String(revision), '--wait', '--timeout=120s');
  }

  /** Runs `helm test` and returns its output. @throws ExecaError if the test fails */
  async test(): Promise<string> {
    return this.#helm('test', name, '--logs', '--timeout=120s');
  }

  /** Kills the operator's pod without a grace period. Its Deployment creates another one. */
  async kill(): Promise<void> {
    const selector = `app.kubernetes.io/instance=${name},app.kubernetes.io/component=operator`;
    await this.#cluster.kubectl([
      ...['delete', 'pod', '--selector', selector, '--namespace', this.namespace],
      ...['--force', '--grace-period=0', '--wait=false'],
    ]);
  }

  /** Uninstalls the release and deletes its namespace. The CRDs and the Echos stay. */
  async uninstall(): Promise<void> {
    await this.uninstallAlone();
    await this.#cluster.deleteNamespace(this.namespace);
  }

  /** Uninstalls the release. Its namespace stays. */
  async uninstallAlone(): Promise<void> {
    await this.#helm('uninstall', name, '--ignore-not-found', '--wait');
  }

  #helm(...args: readonly string[]): Promise<string> {
    return this.#cluster.helm([...args, '--namespace', this.namespace], this.#helmName);
  }
}
