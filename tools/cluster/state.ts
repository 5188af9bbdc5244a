import { readFile, writeFile } from 'node:fs/promises';
import type { ControlPlaneFlags } from './control-plane-program.ts';
import type { Layout } from './layout.ts';

/** The options of a cluster, saved in a file so that other commands find the cluster. */
export interface ClusterState {
  readonly nodes: number;
  /**
   * N in 10.213.N.0/24, the network of the control plane and the nodes. The host sees no other network of the cluster.
   */
  readonly network: number;
  readonly flags: ControlPlaneFlags;
}

/** Returns undefined if there is no cluster with that name, or if its start was interrupted. */
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
