import { join } from 'node:path';
import { execa } from 'execa';
import type { Layout } from './layout.ts';
import type { Programs } from './programs.ts';

/**
 * Runs kubectl as the cluster's administrator and returns its output. Keeps its cache in the cluster's folder and uses
 * no proxy, because only this machine can reach the cluster's addresses.
 *
 * @throws ExecaError with kubectl's error output
 */
export async function kubectl(
  layout: Layout,
  programs: Pick<Programs, 'kubectl'>,
  args: readonly string[],
  input?: string,
): Promise<string> {
  const { stdout } = await execa(programs.kubectl, [`--kubeconfig=${layout.adminKubeconfig}`, ...args], {
    env: { KUBECACHEDIR: join(layout.folder, 'kubectl-cache'), NO_PROXY: '*' },
    ...(input !== undefined && { input }),
  });
  return stdout;
}
