import { readFile } from 'node:fs/promises';
import { type Connection, ConnectionError } from './connection.ts';

/** Where the kubelet projects a pod's service account. */
const serviceAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';

/** The kubelet replaces the token well before it expires; client-go too reads it anew after a minute. */
const tokenMaxAgeMs = 60_000;

/** Whether the environment is a pod's. */
export function isInCluster(environment: NodeJS.ProcessEnv): boolean {
  return Boolean(environment.KUBERNETES_SERVICE_HOST && environment.KUBERNETES_SERVICE_PORT);
}

/**
 * The connection that a pod has through its service account.
 *
 * @throws ConnectionError when the service account is not mounted.
 */
export async function inClusterConnection(
  environment: NodeJS.ProcessEnv,
  directory = serviceAccountDirectory,
): Promise<Connection> {
  const host = environment.KUBERNETES_SERVICE_HOST ?? '';
  const port = environment.KUBERNETES_SERVICE_PORT ?? '';
  const ca = await readServiceAccountFile(directory, 'ca.crt');
  const token = new RotatedToken(() => readServiceAccountFile(directory, 'token'));
  return {
    server: new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`),
    tls: { ca },
    authentication: async () => ({ authorization: `Bearer ${await token.current()}` }),
  };
}

async function readServiceAccountFile(directory: string, file: string): Promise<string> {
  try {
    return (await readFile(`${directory}/${file}`, 'utf8')).trim();
  } catch (cause) {
    throw new ConnectionError(`cannot read ${directory}/${file}: is automountServiceAccountToken off for this pod?`, {
      cause,
    });
  }
}

/** A token that is read anew when it is a minute old. */
class RotatedToken {
  readonly #read: () => Promise<string>;
  #token: Promise<string> | undefined;
  #readAtMs = 0;

  constructor(read: () => Promise<string>) {
    this.#read = read;
  }

  current(): Promise<string> {
    const nowMs = performance.now();
    if (this.#token === undefined || nowMs - this.#readAtMs > tokenMaxAgeMs) {
      this.#readAtMs = nowMs;
      const token = this.#read();
      this.#token = token;
      // A failed read is not kept: the next request tries again.
      token.catch(() => {
        if (this.#token === token) this.#token = undefined;
      });
    }
    return this.#token;
  }
}
