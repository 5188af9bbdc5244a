import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Connection } from './connection.ts';
import { inClusterConnection, isInCluster } from './in-cluster.ts';
import { kubeconfigConnection } from './kubeconfig.ts';

/**
 * Finds the API server as every Kubernetes client does: the given kubeconfig; else a pod's service account; else
 * `~/.kube/config`. `HTTPS_PROXY` and `NO_PROXY` hold as they do for client-go.
 *
 * @throws ConnectionError when none of them can be read.
 */
export async function connect(options: {
  readonly kubeconfigPath: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
}): Promise<Connection> {
  const { kubeconfigPath, environment } = options;
  if (kubeconfigPath !== undefined) return kubeconfigConnection(kubeconfigPath, environment);
  if (isInCluster(environment)) return inClusterConnection(environment);
  if (environment.KUBECONFIG) return kubeconfigConnection(undefined, environment);
  // By its name: KubeConfig, where it finds no file, takes http://localhost:8080 for the server.
  return kubeconfigConnection(join(environment.HOME ?? homedir(), '.kube', 'config'), environment);
}
