import { buildImage } from '../../tools/release/index.ts';
import { SharedCluster } from './environment/shared-cluster.ts';

const images = async (): Promise<readonly string[]> => [
  (await buildImage()).archive,
  (await buildImage({ image: 'petstore' })).archive,
];

/** Three nodes, one for each of the replicas that a release has by default. */
export default async function setUp(): Promise<void> {
  globalThis.e2e = await SharedCluster.up({ suite: 'e2e', nodes: 3, images });
}
