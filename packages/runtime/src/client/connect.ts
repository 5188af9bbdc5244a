import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type Connection, ConnectionError } from './connection.ts';
import { inClusterConnection, isInCluster } from './in-cluster.ts';
import { type ContextChoice, kubeconfigConnection } from './kubeconfig.ts';

/**
 * Finds the API server in the order that Kubernetes clients share: the given kubeconfig, the pod's service account,
 * `KUBECONFIG`, `~/.kube/config`. A named context is never the pod's service account. `HTTPS_PROXY` and `NO_PROXY` work
 * as in client-go. Sends no request.
 *
 * @throws ConnectionError if none of these exists, or if the first that exists is unusable or its context is refused.
 */
export async function connect(
  options: {
    readonly kubeconfigPath: string | undefined;
    readonly environment: NodeJS.ProcessEnv;
  } & ContextChoice,
): Promise<Connection> {
  const { kubeconfigPath, environment } = options;
  if (kubeconfigPath !== undefined) return kubeconfigConnection(kubeconfigPath, environment, options);
  if (options.context === undefined && isInCluster(environment)) return inClusterConnection(environment);
  const { KUBECONFIG } = environment;
  if (KUBECONFIG) {
    // For several files pass no path: KubeConfig reads KUBECONFIG from the process environment and merges the files.
    return kubeconfigConnection(KUBECONFIG.includes(delimiter) ? undefined : KUBECONFIG, environment, options);
  }
  // Check the path here: without a file KubeConfig would silently use http://localhost:8080.
  const path = join(environment.HOME ?? homedir(), '.kube', 'config');
  await access(path).catch((cause: unknown) => {
    const tried = `this process is not in a pod, KUBECONFIG is not set, and ${path} is not readable`;
    throw new ConnectionError(`cannot find an API server: ${tried}`, { cause });
  });
  return kubeconfigConnection(path, environment, options);
}
