import { join } from 'node:path';
import { execa } from 'execa';
import type { Layout } from './layout.ts';
import type { Programs } from './programs.ts';

/**
 * Runs kubectl as the cluster's administrator and returns what it prints. It caches within the cluster's folder, and
 * asks no proxy for an address that only this machine has.
 *
 * @throws ExecaError with kubectl's words when it fails
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
