import { buildImage } from '../../tools/image.ts';
import { Cluster, removeWhenWeDie } from '../cluster/index.ts';

/** Every run has a fresh one: what a killed run has left under the name is removed first. */
const clusterName = 'e2e';

/** One cluster a run, with the operator's image on its nodes; workers inherit the variables that say where it is. */
export default async function setUp(): Promise<void> {
  const image = await buildImage();
  const watchdog = await removeWhenWeDie(clusterName);
  await Cluster.down(clusterName);
  const cluster = await Cluster.up({ name: clusterName, nodes: 2 });
  globalThis.e2e = { cluster, watchdog };
  await cluster.loadImage(image.archive);
  process.env.E2E_KUBECONFIG = cluster.kubeconfigPath;
  process.env.E2E_AUDIT_LOG = cluster.auditLog;
}
