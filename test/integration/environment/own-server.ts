import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type ControlPlaneOptions, startControlPlane } from '../../../testkit/control-plane.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';

/**
 * An API server of a test file's own, without our definitions: what it installs or stores would disturb the other
 * files.
 */
export class OwnServer implements AsyncDisposable {
  readonly cluster: TestCluster;
  /** For the files of the test. */
  readonly folder: string;
  readonly etcdUrl: string;
  readonly #resources: AsyncDisposableStack;

  private constructor(resources: AsyncDisposableStack, cluster: TestCluster, folder: string, etcdUrl: string) {
    this.#resources = resources;
    this.cluster = cluster;
    this.folder = folder;
    this.etcdUrl = etcdUrl;
  }

  static async start(options: ControlPlaneOptions = {}): Promise<OwnServer> {
    await using resources = new AsyncDisposableStack();
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'own-'));
    resources.defer(() => rm(folder, { recursive: true, force: true }));
    const { config, auditLog, stop } = await startControlPlane(folder, [], options);
    resources.defer(stop);
    const cluster = await TestCluster.at(config.kubeconfigPath, auditLog);
    resources.defer(() => cluster.disconnect());
    return new OwnServer(resources.move(), cluster, folder, config.etcdURL ?? '');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}
