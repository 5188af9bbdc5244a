import { ensureBinaries } from '../tools/programs/index.ts';
import { wrapToDieWithParent } from './die-with-parent.ts';

/** A folder of etcd and kube-apiserver for the testing kit. They end with this process, also when it is killed. */
export async function programs(folder: string): Promise<string> {
  return wrapToDieWithParent(folder, Object.fromEntries(await ensureBinaries(['etcd', 'kube-apiserver'])));
}
