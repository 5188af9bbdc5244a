import { type BinaryName, ensureBinaries } from '../programs/index.ts';

const names = [
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

/** The absolute path of each program of a cluster. */
export type Programs = Readonly<Record<(typeof names)[number], string>>;

/** Finds the programs, building those that are not there. @throws as ensureBinaries does */
export async function findPrograms(signal: AbortSignal | undefined): Promise<Programs> {
  const paths = await ensureBinaries(names, { ...(signal && { signal }) });
  return Object.fromEntries(paths) as Programs;
}
