import type { SharedCluster } from './environment/shared-cluster.ts';

declare global {
  /** Passed from the set-up to the tear-down, which jest runs in the same process. */
  var e2e: SharedCluster | undefined;
}

export default async function tearDown(): Promise<void> {
  await globalThis.e2e?.down();
}
