import { ensureBinaries } from '../../tools/programs/index.ts';

/** Builds both Helms and the API server before the first test: a test's time limit is too short for that. */
export default async function globalSetup(): Promise<void> {
  await ensureBinaries(['helm', 'helm4', 'etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl']);
}
