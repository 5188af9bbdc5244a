import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type Connection, ConnectionError } from './connection.ts';
import { inClusterConnection, isInCluster } from './in-cluster.ts';
import { kubeconfigConnection } from './kubeconfig.ts';

/**
 * Finds the API server as every Kubernetes client does: the given kubeconfig; else a pod's service account; else
 * `KUBECONFIG`; else `~/.kube/config`. `HTTPS_PROXY` and `NO_PROXY` hold as they do for client-go.
 *
 * @throws ConnectionError when none of them is there, or the first that is can't be used.
 */
export async function connect(options: {
  readonly kubeconfigPath: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
}): Promise<Connection> {
  const { kubeconfigPath, environment } = options;
  if (kubeconfigPath !== undefined) return kubeconfigConnection(kubeconfigPath, environment);
  if (isInCluster(environment)) return inClusterConnection(environment);
  const { KUBECONFIG } = environment;
  if (KUBECONFIG) {
    // Several of them are merged by KubeConfig, which finds them in the environment of the process.
    return kubeconfigConnection(KUBECONFIG.includes(delimiter) ? undefined : KUBECONFIG, environment);
  }
  // By its name: KubeConfig, where it finds no file, takes http://localhost:8080 for the server.
  const path = join(environment.HOME ?? homedir(), '.kube', 'config');
  await access(path).catch((cause: unknown) => {
    const looked = `this is no pod, KUBECONFIG is not set, and ${path} can't be read`;
    throw new ConnectionError(`no way to an API server is known: ${looked}`, { cause });
  });
  return kubeconfigConnection(path, environment);
}
