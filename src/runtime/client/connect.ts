import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type Connection, ConnectionError } from './connection.ts';
import { inClusterConnection, isInCluster } from './in-cluster.ts';
import { kubeconfigConnection } from './kubeconfig.ts';

/**
 * Finds the API server as every Kubernetes client does: the given kubeconfig; else a pod's service account; else
 * `~/.kube/config`.
 *
 * @throws ConnectionError when none of them is there, or the first that is can't be used.
 */
export async function connect(options: {
  readonly kubeconfigPath: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
}): Promise<Connection> {
  if (options.kubeconfigPath !== undefined) return kubeconfigConnection(options.kubeconfigPath);
  if (isInCluster(options.environment)) return inClusterConnection(options.environment);
  const { KUBECONFIG } = options.environment;
  // Several of them are merged by KubeConfig, which finds them in the environment of the process.
  if (KUBECONFIG) return kubeconfigConnection(KUBECONFIG.includes(delimiter) ? undefined : KUBECONFIG);
  // By its name: KubeConfig, where it finds no file, takes http://localhost:8080 for the server.
  const path = join(options.environment.HOME ?? homedir(), '.kube', 'config');
  await access(path).catch((cause: unknown) => {
    const looked = `this is no pod, KUBECONFIG is not set, and ${path} can't be read`;
    throw new ConnectionError(`no way to an API server is known: ${looked}`, { cause });
  });
  return kubeconfigConnection(path);
}
