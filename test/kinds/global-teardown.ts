import type { SharedCluster } from '../e2e/environment/shared-cluster.ts';

declare global {
  /** What the set-up hands to the tear-down: jest runs both in one process. */
  var kinds: SharedCluster | undefined;
}

export default async function tearDown(): Promise<void> {
  await globalThis.kinds?.down();
}
