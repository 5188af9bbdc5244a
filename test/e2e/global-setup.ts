import { buildImage } from '../../tools/release/index.ts';
import { SharedCluster } from './environment/shared-cluster.ts';

/** Three nodes, one for each of the replicas that a release has by default. */
export default async function setUp(): Promise<void> {
  const images = async () => [(await buildImage()).archive];
  globalThis.e2e = await SharedCluster.up({ suite: 'e2e', nodes: 3, images });
}
