import { type Connection, ConnectionError } from './connection.ts';
import { kubeconfigUser } from './kubeconfig-user.ts';
import { environmentProxy, parseProxy } from './proxy.ts';

/**
 * The connection that a kubeconfig's current context describes. Tokens in files are read anew each minute, exec plugins
 * are run again when their credentials expire, and both at once when the server refuses what they gave; client
 * certificates in files are renewed with their files.
 *
 * @param path absent: where kubectl looks, `KUBECONFIG` or `~/.kube/config`.
 * @param environment for `HTTPS_PROXY` and `NO_PROXY`; a `proxy-url` in the kubeconfig comes first. Default: no proxy.
 * @throws ConnectionError naming the kubeconfig when it or a file that it refers to can't be read, or leads nowhere.
 */
export async function kubeconfigConnection(path?: string, environment: NodeJS.ProcessEnv = {}): Promise<Connection> {
  const name = `kubeconfig ${path ?? 'at its default place'}`;
  // On demand: a pod never needs it, and it brings the whole generated API with it.
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
  const proxy = cluster.proxyUrl ? parseProxy(cluster.proxyUrl, `the ${name}`) : environmentProxy(server, environment);
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
    unauthorized: (headers) => user.unauthorized(headers),
  };
}
