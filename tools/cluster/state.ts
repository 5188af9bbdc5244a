import { readFile, writeFile } from 'node:fs/promises';
import type { Layout } from './layout.ts';

/** What was asked for, written down so that other commands find the cluster. */
export interface ClusterState {
  readonly nodes: number;
  /** The third number of the machines' addresses, 10.213.N.0/24: the one network of the cluster that the host sees. */
  readonly network: number;
  readonly flags: ControlPlaneFlags;
}

/** What runs in the control plane, by name. */
export type ControlPlaneProgram = 'etcd' | 'apiserver' | 'controller-manager' | 'scheduler' | 'coredns';

/** Arguments for these programs, behind their own: of a flag that is there twice, the last one counts. */
export type ControlPlaneFlags = Readonly<Partial<Record<ControlPlaneProgram, readonly string[]>>>;

/** Undefined where there is no cluster of that name, or none that was brought up far enough to have one. */
export async function readState(layout: Layout): Promise<ClusterState | undefined> {
  try {
    return JSON.parse(await readFile(layout.stateFile, 'utf8')) as ClusterState;
  } catch {
    return undefined;
  }
}

export async function writeState(layout: Layout, state: ClusterState): Promise<void> {
  await writeFile(layout.stateFile, JSON.stringify(state));
}
