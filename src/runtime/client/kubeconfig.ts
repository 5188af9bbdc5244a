import type { RequestOptions } from 'node:https';
import { type Connection, ConnectionError, type TlsOptions } from './connection.ts';

/**
 * The connection that a kubeconfig's current context describes. Exec plugins and OIDC hand out tokens that expire;
 * KubeConfig caches them and knows when.
 *
 * @param path absent: where kubectl looks, `KUBECONFIG` or `~/.kube/config`.
 * @throws ConnectionError naming the kubeconfig when it or a file that it refers to can't be read, or leads nowhere.
 */
export async function kubeconfigConnection(path?: string): Promise<Connection> {
  const name = `kubeconfig ${path ?? 'at its default place'}`;
  // On demand: a pod never needs it, and it brings the whole generated API with it.
  const { KubeConfig } = await import('./client-node.ts');
  const kubeConfig = new KubeConfig();
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
  if (cluster.proxyUrl !== undefined) {
    throw new ConnectionError(`the ${name} asks for the proxy ${cluster.proxyUrl}: proxies are not supported`);
  }
  const server = URL.parse(cluster.server);
  if (server === null) {
    throw new ConnectionError(`the ${name} names the server "${cluster.server}", which is not a URL`);
  }
  const options = await httpsOptions(kubeConfig).catch((cause: unknown) => {
    throw new ConnectionError(`cannot use the ${name}: ${String(cause)}`, { cause });
  });
  return {
    server,
    tls: tlsOptions(options),
    authentication: async () => {
      const current = await httpsOptions(kubeConfig);
      return {
        ...stringHeaders(current.headers),
        ...(typeof current.auth === 'string' && {
          authorization: `Basic ${Buffer.from(current.auth).toString('base64')}`,
        }),
      };
    },
  };
}

async function httpsOptions(kubeConfig: {
  applyToHTTPSOptions(options: RequestOptions): Promise<void>;
}): Promise<RequestOptions> {
  const options: RequestOptions = {};
  await kubeConfig.applyToHTTPSOptions(options);
  return options;
}

/** Every value here is a single string or buffer: KubeConfig reads one file or one field for each. */
function tlsOptions({ ca, cert, key, servername, rejectUnauthorized }: RequestOptions): TlsOptions {
  const pem = (value: unknown): string | Buffer | undefined =>
    typeof value === 'string' || Buffer.isBuffer(value) ? value : undefined;
  const [caPem, certPem, keyPem] = [pem(ca), pem(cert), pem(key)];
  return {
    ...(caPem !== undefined && { ca: caPem }),
    ...(certPem !== undefined && { cert: certPem }),
    ...(keyPem !== undefined && { key: keyPem }),
    ...(servername !== undefined && { servername }),
    ...(rejectUnauthorized !== undefined && { rejectUnauthorized }),
  };
}

function stringHeaders(headers: RequestOptions['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers ?? {}).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}
