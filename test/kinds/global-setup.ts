import { E2eCluster } from '../e2e/environment/cluster.ts';
import { Release } from '../e2e/environment/release.ts';
import { SharedCluster } from '../e2e/environment/shared-cluster.ts';

/** One release for all files: they run side by side. */
export default async function setUp(): Promise<void> {
  globalThis.kinds = await SharedCluster.up('kinds');
  const release = await Release.install(await E2eCluster.connect());
  process.env.KINDS_RELEASE_NAMESPACE = release.namespace;
}
