import type { RequestOptions } from 'node:https';
import { type Connection, ConnectionError, type TlsOptions } from './connection.ts';

/** Exec plugins and OIDC hand out tokens that expire; KubeConfig caches them and knows when. */
export async function kubeconfigConnection(path?: string): Promise<Connection> {
  // On demand: a pod never needs it, and it brings the whole generated API with it.
  const { KubeConfig } = await import('./client-node.ts');
  const kubeConfig = new KubeConfig();
  try {
    if (path === undefined) kubeConfig.loadFromDefault();
    else kubeConfig.loadFromFile(path);
  } catch (cause) {
    throw new ConnectionError(`cannot read the kubeconfig ${path ?? 'at its default place'}: ${String(cause)}`, {
      cause,
    });
  }
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) {
    throw new ConnectionError(
      `the kubeconfig ${path ?? 'at its default place'} has no cluster for its current context "${kubeConfig.getCurrentContext()}"`,
    );
  }
  if (cluster.proxyUrl !== undefined) {
    throw new ConnectionError(`the kubeconfig asks for the proxy ${cluster.proxyUrl}: proxies are not supported`);
  }
  const options = await httpsOptions(kubeConfig);
  return {
    server: new URL(cluster.server),
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
