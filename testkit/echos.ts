import type { Manifest, ObjectKey } from '@echoperator/runtime';
import { Echo } from '../src/kinds/echo/kind.ts';
import type { TestCluster } from './test-cluster.ts';
import { customManifest, withReason } from './with-reason.ts';

/** A manifest of an Echo. */
export const echoManifest = (
  key: ObjectKey,
  spec: Echo['spec'],
): Manifest<Echo> & { metadata: { generation: number } } => customManifest(key, spec);

/** Waits until an Echo's condition Ready has the reason for the current generation. */
export const echoWithReason = (cluster: TestCluster, key: ObjectKey, reason: string): Promise<Echo> =>
  withReason(cluster, Echo, key, reason);
