import { Echo } from '../src/api/index.ts';
import type { Manifest, ObjectKey } from '../src/runtime/index.ts';
import type { TestCluster } from './test-cluster.ts';
import { customManifest, withReason } from './with-reason.ts';

/** What an Echo to create is made of. */
export const echoManifest = (
  key: ObjectKey,
  spec: Echo['spec'],
): Manifest<Echo> & { metadata: { generation: number } } => customManifest(key, spec);

/** Waits until the condition Ready of an Echo has the reason, for its current generation, and returns the Echo. */
export const echoWithReason = (cluster: TestCluster, key: ObjectKey, reason: string): Promise<Echo> =>
  withReason(cluster, Echo, key, reason);
