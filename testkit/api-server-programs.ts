import { ensureBinaries } from '../tools/programs/index.ts';
import { wrapToDieWithParent } from './die-with-parent.ts';

/**
 * Returns a folder with etcd and kube-apiserver for the `ApiServer` of the runtime's testing kit. The programs end with
 * this process, even if it is killed.
 */
export async function apiServerPrograms(folder: string): Promise<string> {
  return wrapToDieWithParent(folder, Object.fromEntries(await ensureBinaries(['etcd', 'kube-apiserver'])));
}
