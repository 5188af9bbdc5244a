import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { Cluster, KubeConfig, User } from '@kubernetes/client-node';
import { type Connection, ConnectionError } from './connection.ts';
import { kubeconfigUser } from './kubeconfig-user.ts';
import { parseProxy, proxyFromEnvironment } from './proxy.ts';

type ClientNode = typeof import('./client-node.ts');

/**
 * Connects with a context of a kubeconfig. The files that it names (CA, client certificate, key, token) are
 * read again every minute, and exec plugins run again when their credentials expire. Both happen at once after the
 * server rejected the credentials. As in client-go, a server without TLS (`http://`) gets no credentials.
 *
 * @param path Default: the files in `KUBECONFIG`, or `~/.kube/config`.
 * @param environment for `HTTPS_PROXY` and `NO_PROXY`; a `proxy-url` in the kubeconfig takes precedence. Default: no
 *   proxy.
 * @param context Default: the current context.
 * @throws ConnectionError with the kubeconfig's path if the kubeconfig or a file that it names is unreadable or
 *   invalid.
 */
export async function kubeconfigConnection(
  path?: string,
  environment: NodeJS.ProcessEnv = {},
  context?: string,
): Promise<Connection> {
  const name = `kubeconfig ${path ?? 'at its default place'}`;
  // Loaded on demand, because it loads the whole generated API and a pod does not need it.
  const clientNode = await import('./client-node.ts');
  const files = path === undefined ? defaultFiles() : [path];
  const kubeConfig = loadMerged(clientNode, files, name);
  if (context !== undefined) {
    if (kubeConfig.getContextObject(context) === null)
      throw new ConnectionError(`the ${name} has no context "${context}"`);
    kubeConfig.setCurrentContext(context);
  }
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) {
    throw new ConnectionError(`the ${name} has no cluster for its current context "${kubeConfig.getCurrentContext()}"`);
  }
  const user = kubeConfig.getCurrentUser();
  const server = parseServer(cluster, user);
  if (server === undefined) {
    throw new ConnectionError(
      `the ${name} names the server "${cluster.server}", which is neither host:port nor a URL with https:// or http://`,
    );
  }
  const proxy = cluster.proxyUrl
    ? parseProxy(cluster.proxyUrl, `the ${name}`)
    : proxyFromEnvironment(server, environment);
  const usesTls = server.protocol === 'https:';
  const credentials = await kubeconfigUser(clientNode, { cluster, user, files, usesTls }).catch((cause: unknown) => {
    throw new ConnectionError(`cannot use the ${name}: ${String(cause)}`, { cause });
  });
  return {
    server,
    get tls() {
      return credentials.tls;
    },
    ...(proxy !== undefined && { proxy }),
    authentication: () => credentials.authentication(),
    invalidate: (headers) => credentials.invalidate(headers),
  };
}

/** As kubectl, skips files of `KUBECONFIG` that do not exist. */
function defaultFiles(): readonly string[] {
  const files = process.env.KUBECONFIG?.split(delimiter).filter((file) => file !== '') ?? [];
  if (files.length === 0) return [join(homedir(), '.kube', 'config')];
  const existing = files.filter((file) => existsSync(file));
  return existing.length === 0 ? files : existing;
}

/** Loads several files as one. As in kubectl, the first file that defines a name or the current context wins. */
function loadMerged({ KubeConfig: Config }: ClientNode, files: readonly string[], name: string): KubeConfig {
  const parts = files.map((file) => {
    const part = new Config();
    try {
      part.loadFromFile(file);
    } catch (cause) {
      throw new ConnectionError(`cannot read the ${name}: ${String(cause)}`, { cause });
    }
    return part;
  });
  const merged = new Config();
  merged.loadFromOptions({
    clusters: firstOfEachName(parts.flatMap((part) => part.getClusters())),
    users: firstOfEachName(parts.flatMap((part) => part.getUsers())),
    contexts: firstOfEachName(parts.flatMap((part) => part.getContexts())),
    currentContext: parts.map((part) => part.getCurrentContext()).find(Boolean) ?? '',
  });
  return merged;
}

const firstOfEachName = <T extends { readonly name: string }>(entries: readonly T[]): T[] => [
  ...new Map(entries.toReversed().map((entry) => [entry.name, entry])).values(),
];

/**
 * As in client-go, a server without a scheme has TLS if the kubeconfig has a CA, a client certificate, or skips
 * verification.
 */
function parseServer({ server, caData, caFile, skipTLSVerify }: Cluster, user: User | null): URL | undefined {
  const hasTls = caData || caFile || skipTLSVerify || user?.certData || user?.certFile;
  const url = URL.parse(server.includes('://') ? server : `${hasTls ? 'https' : 'http'}://${server}`);
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? url : undefined;
}
