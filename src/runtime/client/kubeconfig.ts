import { type Connection, ConnectionError } from './connection.ts';
import { kubeconfigUser } from './kubeconfig-user.ts';
import { parseProxy, proxyFromEnvironment } from './proxy.ts';

/**
 * Connects with the current context of a kubeconfig. Tokens and client certificates in files are read again every minute,
 * and exec plugins run again when their credentials expire. Both happen at once after the server rejected the credentials.
 *
 * @param path Default: the files in `KUBECONFIG`, or `~/.kube/config`.
 * @param environment for `HTTPS_PROXY` and `NO_PROXY`; a `proxy-url` in the kubeconfig takes precedence. Default: no proxy.
 * @throws ConnectionError with the kubeconfig's path if the kubeconfig or a file that it names is unreadable or invalid.
 */
export async function kubeconfigConnection(path?: string, environment: NodeJS.ProcessEnv = {}): Promise<Connection> {
  const name = `kubeconfig ${path ?? 'at its default place'}`;
  // Loaded on demand, because it loads the whole generated API and a pod does not need it.
  const clientNode = await import('./client-node.ts');
  const kubeConfig = new clientNode.KubeConfig();
  try {
    if (path === undefined) kubeConfig.loadFromDefault();
    else kubeConfig.loadFromFile(path);
  } catch (cause) {
    throw new ConnectionError(`cannot read the ${name}: ${String(cause)}`, { cause });
  }
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) {
    throw new ConnectionError(`the ${name} has no cluster for its current context "${kubeConfig.getCurrentContext()}"`);
  }
  const server = URL.parse(cluster.server);
  if (server === null) {
    throw new ConnectionError(`the ${name} names the server "${cluster.server}", which is not a URL`);
  }
  const proxy = cluster.proxyUrl
    ? parseProxy(cluster.proxyUrl, `the ${name}`)
    : proxyFromEnvironment(server, environment);
  const user = await kubeconfigUser(clientNode, kubeConfig, path).catch((cause: unknown) => {
    throw new ConnectionError(`cannot use the ${name}: ${String(cause)}`, { cause });
  });
  return {
    server,
    get tls() {
      return user.tls;
    },
    ...(proxy !== undefined && { proxy }),
    authentication: () => user.authentication(),
    invalidate: (headers) => user.invalidate(headers),
  };
}
