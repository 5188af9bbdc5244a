import { SharedCluster } from './environment/shared-cluster.ts';

export default async function setUp(): Promise<void> {
  globalThis.e2e = await SharedCluster.up('e2e');
}
