import type { ExclusiveLock } from '../../tools/index.ts';
import type { Cluster, Watchdog } from '../cluster/index.ts';

declare global {
  /** What the set-up hands to the tear-down: jest runs both in one process. */
  var e2e: { readonly cluster: Cluster; readonly watchdog: Watchdog; readonly lock: ExclusiveLock } | undefined;
}

export default async function tearDown(): Promise<void> {
  if (globalThis.e2e === undefined) return;
  await globalThis.e2e.cluster.down();
  await globalThis.e2e.watchdog.release();
  globalThis.e2e.lock[Symbol.dispose]();
}
