import { readFile } from 'node:fs/promises';
import { isPromise } from 'node:util/types';
import { type Connection, ConnectionError } from './connection.ts';
import { environmentProxy } from './proxy.ts';
import { TokenFile } from './token-file.ts';

/** Where the kubelet projects a pod's service account. */
const serviceAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Whether the environment is a pod's. */
export function isInCluster(environment: NodeJS.ProcessEnv): boolean {
  return Boolean(environment.KUBERNETES_SERVICE_HOST && environment.KUBERNETES_SERVICE_PORT);
}

/**
 * The connection that a pod has through its service account. The token is read anew each minute, and at once when the
 * server refuses it; the CA is read once.
 *
 * @throws ConnectionError when the service account is not mounted.
 */
export async function inClusterConnection(
  environment: NodeJS.ProcessEnv,
  directory = serviceAccountDirectory,
): Promise<Connection> {
  const host = environment.KUBERNETES_SERVICE_HOST ?? '';
  const port = environment.KUBERNETES_SERVICE_PORT ?? '';
  const ca = await readFile(`${directory}/ca.crt`, 'utf8').catch((cause: unknown) =>
    notMounted(directory, 'ca.crt', cause),
  );
  const token = new TokenFile(`${directory}/token`);
  const server = new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`);
  const proxy = environmentProxy(server, environment);
  return {
    server,
    ...(proxy !== undefined && { proxy }),
    tls: { ca: ca.trim() },
    authentication: () => {
      const headers = token.authentication();
      return isPromise(headers) ? headers.catch((cause: unknown) => notMounted(directory, 'token', cause)) : headers;
    },
    unauthorized: (headers) => token.refused(headers),
  };
}

function notMounted(directory: string, file: string, cause: unknown): never {
  throw new ConnectionError(`cannot read ${directory}/${file}: is automountServiceAccountToken off for this pod?`, {
    cause,
  });
}
