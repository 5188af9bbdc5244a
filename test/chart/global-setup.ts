import { ensureBinaries } from '../../tools/programs/index.ts';

/** Builds both Helms, and what releases are made on, before the first test, whose time limit is not made for that. */
export default async function globalSetup(): Promise<void> {
  await ensureBinaries(['helm', 'helm4', 'etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl']);
}
