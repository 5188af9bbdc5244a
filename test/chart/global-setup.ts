import { ensureBinaries } from '../../tools/programs/index.ts';

/**
 * Builds both versions of Helm, promtool and the API server before the first test, because a test's time limit is too
 * short for it.
 */
export default async function globalSetup(): Promise<void> {
  await ensureBinaries(['helm', 'helm4', 'etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl', 'promtool']);
}
