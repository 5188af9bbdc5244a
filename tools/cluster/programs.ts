import { type BinaryName, ensureBinaries } from '../programs/index.ts';

/** The programs of a cluster, and kubectl, in build order. */
export const clusterPrograms = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubectl',
  'kubelet',
  'kube-proxy',
  'containerd',
  'containerd-shim-runc-v2',
  'ctr',
  'coredns',
  'volume-driver',
] as const satisfies readonly BinaryName[];

/** The absolute paths of a cluster's programs. */
export type Programs = Readonly<Record<(typeof clusterPrograms)[number], string>>;

/** Returns the programs and builds missing ones. @throws like ensureBinaries */
export async function findPrograms(signal: AbortSignal | undefined): Promise<Programs> {
  const paths = await ensureBinaries(clusterPrograms, { ...(signal && { signal }) });
  return Object.fromEntries(paths) as Programs;
}
