import { readFile } from 'node:fs/promises';
import { type Connection, ConnectionError } from './connection.ts';
import { proxyFromEnvironment } from './proxy.ts';
import { ReloadedCredentials } from './reloaded-credentials.ts';

/** The kubelet mounts a pod's service account here. */
const serviceAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';

/** True if the environment variables are those of a pod. */
export function isInCluster(environment: NodeJS.ProcessEnv): boolean {
  return Boolean(environment.KUBERNETES_SERVICE_HOST && environment.KUBERNETES_SERVICE_PORT);
}

/**
 * The namespace of the pod; undefined outside a cluster. @throws ConnectionError if the service account is not mounted.
 */
export async function podNamespace(
  environment: NodeJS.ProcessEnv,
  directory: string = serviceAccountDirectory,
): Promise<string | undefined> {
  return isInCluster(environment) ? read(`${directory}/namespace`) : undefined;
}

/**
 * Connects with the pod's service account. The token and the CA are read again every minute, and at once after the
 * server rejected the token. New connections use the new CA.
 *
 * @throws ConnectionError if the service account is not mounted.
 */
export async function inClusterConnection(
  environment: NodeJS.ProcessEnv,
  directory: string = serviceAccountDirectory,
): Promise<Connection> {
  const host = environment.KUBERNETES_SERVICE_HOST ?? '';
  const port = environment.KUBERNETES_SERVICE_PORT ?? '';
  const server = new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`);
  const proxy = proxyFromEnvironment(server, environment);
  const credentials = await ReloadedCredentials.start(async () => {
    const [ca, token] = await Promise.all([read(`${directory}/ca.crt`), read(`${directory}/token`)]);
    return { tls: { ca }, headers: { authorization: `Bearer ${token}` } };
  }).catch((cause: unknown) => {
    if (cause instanceof ConnectionError) throw cause;
    throw new ConnectionError(`cannot use the service account in ${directory}: ${String(cause)}`, { cause });
  });
  return {
    server,
    ...(proxy !== undefined && { proxy }),
    get tls() {
      return credentials.tls;
    },
    authentication: () => credentials.authentication(),
    invalidate: (headers) => credentials.invalidate(headers),
  };
}

async function read(path: string): Promise<string> {
  const content = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConnectionError(`cannot read ${path}: is automountServiceAccountToken off for this pod?`, { cause });
  });
  // With an empty CA, Node would trust the public authorities.
  if (content.trim() === '') throw new ConnectionError(`${path} is empty: is the service account mounted completely?`);
  return content.trim();
}
