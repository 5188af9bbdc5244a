import { readFile } from 'node:fs/promises';
import { isPromise } from 'node:util/types';
import { type Connection, ConnectionError } from './connection.ts';
import { proxyFromEnvironment } from './proxy.ts';
import { TokenFile } from './token-file.ts';

/** The kubelet mounts a pod's service account here. */
const serviceAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';

/** True if the environment variables are those of a pod. */
export function isInCluster(environment: NodeJS.ProcessEnv): boolean {
  return Boolean(environment.KUBERNETES_SERVICE_HOST && environment.KUBERNETES_SERVICE_PORT);
}

/**
 * Connects with the pod's service account. The token is read again every minute, and at once after the server rejected
 * it. The CA is read once.
 *
 * @throws ConnectionError if the service account is not mounted.
 */
export async function inClusterConnection(
  environment: NodeJS.ProcessEnv,
  directory = serviceAccountDirectory,
): Promise<Connection> {
  const host = environment.KUBERNETES_SERVICE_HOST ?? '';
  const port = environment.KUBERNETES_SERVICE_PORT ?? '';
  const ca = await readFile(`${directory}/ca.crt`, 'utf8').catch((cause: unknown) =>
    throwNotMounted(directory, 'ca.crt', cause),
  );
  const token = new TokenFile(`${directory}/token`);
  const server = new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`);
  const proxy = proxyFromEnvironment(server, environment);
  return {
    server,
    ...(proxy !== undefined && { proxy }),
    tls: { ca: ca.trim() },
    authentication: () => {
      const headers = token.authentication();
      return isPromise(headers)
        ? headers.catch((cause: unknown) => throwNotMounted(directory, 'token', cause))
        : headers;
    },
    invalidate: (headers) => token.invalidate(headers),
  };
}

function throwNotMounted(directory: string, file: string, cause: unknown): never {
  throw new ConnectionError(`cannot read ${directory}/${file}: is automountServiceAccountToken off for this pod?`, {
    cause,
  });
}
