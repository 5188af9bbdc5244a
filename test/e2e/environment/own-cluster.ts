import type { V1Namespace } from '@kubernetes/client-node';
import { builtInKind, type Client, HttpClient, kubeconfigConnection, Transport } from '../../../src/runtime/index.ts';
import { Cluster, removeWhenWeDie, type UpOptions, type Watchdog } from '../../../tools/cluster/index.ts';
import { buildImage } from '../../../tools/release/index.ts';
import { E2eCluster } from './cluster.ts';

const Namespace = builtInKind<V1Namespace>({
  group: '',
  version: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  scope: 'Cluster',
});

/** A cluster that a test may break, with the operator's image on its nodes. It goes when the test run ends, however. */
export class OwnCluster {
  readonly cluster: Cluster;
  /** Through the eyes of a user. */
  readonly user: E2eCluster;
  readonly client: Client;
  readonly transport: Transport;
  readonly #watchdog: Watchdog;

  private constructor(cluster: Cluster, user: E2eCluster, transport: Transport, watchdog: Watchdog) {
    this.cluster = cluster;
    this.user = user;
    this.transport = transport;
    this.client = new HttpClient(transport, 'test');
    this.#watchdog = watchdog;
  }

  static async up(options: UpOptions & { readonly name: string }): Promise<OwnCluster> {
    const image = await buildImage();
    const watchdog = await removeWhenWeDie(options.name);
    try {
      await Cluster.down(options.name);
      const cluster = await Cluster.up(options);
      await cluster.loadImage(image.archive);
      const user = await E2eCluster.at(cluster.kubeconfigPath, cluster.auditLog);
      const connection = await kubeconfigConnection(cluster.kubeconfigPath);
      const transport = new Transport(connection, { userAgent: 'test', timeoutMs: 10_000 });
      return new OwnCluster(cluster, user, transport, watchdog);
    } catch (error) {
      await Cluster.down(options.name);
      await watchdog.release();
      throw error;
    }
  }

  async namespace(name: string): Promise<string> {
    await this.client.create(Namespace, { metadata: { name } });
    return name;
  }

  async down(): Promise<void> {
    await this.transport.close();
    await this.cluster.down();
    await this.#watchdog.release();
  }
}
