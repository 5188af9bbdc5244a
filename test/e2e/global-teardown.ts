import type { SharedCluster } from './environment/shared-cluster.ts';

declare global {
  /** What the set-up hands to the tear-down: jest runs both in one process. */
  var e2e: SharedCluster | undefined;
}

export default async function tearDown(): Promise<void> {
  await globalThis.e2e?.down();
}
