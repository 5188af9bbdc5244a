import { join } from 'node:path';
import { cacheFolder } from '../../../tools/cache-folder.ts';
import { addressesOfAllClusters, Cluster, removeClusterOnExit, type Watchdog } from '../../../tools/cluster/index.ts';
import { ExclusiveLock } from '../../../tools/exclusive-lock.ts';

/** Options of a suite's cluster. */
export interface SharedClusterOptions {
  /** The suite, and the cluster's name. */
  readonly suite: string;
  readonly nodes: number;
  /** Builds the images that every node gets, where the cache lacks them. Archives. */
  readonly images: () => Promise<readonly string[]>;
}

/**
 * One cluster for a whole run of a suite; workers inherit the variables that say where it is. Every run has a fresh
 * one: what a killed run has left under the name is removed first.
 */
export class SharedCluster {
  readonly cluster: Cluster;
  readonly #watchdog: Watchdog;
  readonly #lock: ExclusiveLock;

  private constructor(cluster: Cluster, watchdog: Watchdog, lock: ExclusiveLock) {
    this.cluster = cluster;
    this.#watchdog = watchdog;
    this.#lock = lock;
  }

  static async up({ suite, nodes, images }: SharedClusterOptions): Promise<SharedCluster> {
    const lock = lockOutOtherRuns(suite);
    const watchdog = await removeClusterOnExit(suite);
    await Cluster.down(suite);
    const [cluster, archives] = await Promise.all([Cluster.up({ name: suite, nodes }), images()]);
    await Promise.all(archives.map((archive) => cluster.loadImage(archive)));
    process.env.E2E_KUBECONFIG = cluster.kubeconfigPath;
    process.env.E2E_AUDIT_LOG = cluster.auditLog;
    // kubectl and helm would ask a proxy for what is on this machine.
    process.env.NO_PROXY = [process.env.NO_PROXY, addressesOfAllClusters].filter(Boolean).join(',');
    return new SharedCluster(cluster, watchdog, lock);
  }

  async down(): Promise<void> {
    await this.cluster.down();
    await this.#watchdog.release();
    this.#lock[Symbol.dispose]();
  }
}

/** Two runs at once would remove each other's clusters. */
function lockOutOtherRuns(suite: string): ExclusiveLock {
  const file = join(cacheFolder(), `${suite}.lock`);
  const lock = ExclusiveLock.tryAcquire(file, `the ${suite} tests`);
  if (lock === undefined) throw new Error(`${suite} tests run already: ${ExclusiveLock.lastHolder(file)}`);
  return lock;
}
