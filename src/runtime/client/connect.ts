import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Connection } from './connection.ts';
import { inClusterConnection, isInCluster } from './in-cluster.ts';
import { kubeconfigConnection } from './kubeconfig.ts';

/**
 * Finds the API server as every Kubernetes client does: the given kubeconfig; else a pod's service account; else
 * `~/.kube/config`.
 *
 * @throws ConnectionError when none of them can be read.
 */
export async function connect(options: {
  readonly kubeconfigPath: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
}): Promise<Connection> {
  if (options.kubeconfigPath !== undefined) return kubeconfigConnection(options.kubeconfigPath);
  if (isInCluster(options.environment)) return inClusterConnection(options.environment);
  if (options.environment.KUBECONFIG) return kubeconfigConnection();
  // By its name: KubeConfig, where it finds no file, takes http://localhost:8080 for the server.
  return kubeconfigConnection(join(options.environment.HOME ?? homedir(), '.kube', 'config'));
}
