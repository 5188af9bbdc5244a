import { join } from 'node:path';
import { buildImage } from '../../tools/image.ts';
import { cacheFolder, ExclusiveLock } from '../../tools/index.ts';
import { addressesOfAllClusters, Cluster, removeWhenWeDie } from '../cluster/index.ts';

/** Every run has a fresh one: what a killed run has left under the name is removed first. */
const clusterName = 'e2e';

/** One cluster a run, with the operator's image on its nodes; workers inherit the variables that say where it is. */
export default async function setUp(): Promise<void> {
  const image = await buildImage();
  const lock = lockOutOtherRuns();
  const watchdog = await removeWhenWeDie(clusterName);
  await Cluster.down(clusterName);
  const cluster = await Cluster.up({ name: clusterName, nodes: 2 });
  globalThis.e2e = { cluster, watchdog, lock };
  await cluster.loadImage(image.archive);
  process.env.E2E_KUBECONFIG = cluster.kubeconfigPath;
  process.env.E2E_AUDIT_LOG = cluster.auditLog;
  // kubectl and helm would ask a proxy for what is on this machine.
  process.env.NO_PROXY = [process.env.NO_PROXY, addressesOfAllClusters].filter(Boolean).join(',');
}

/** Two runs at once would remove each other's clusters. */
function lockOutOtherRuns(): ExclusiveLock {
  const file = join(cacheFolder(), 'e2e.lock');
  const lock = ExclusiveLock.tryAcquire(file, 'the e2e tests');
  if (lock === undefined) throw new Error(`e2e tests run already: ${ExclusiveLock.lastHolder(file)}`);
  return lock;
}
