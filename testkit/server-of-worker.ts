/** The API server of one jest worker. */
export interface ServerOfWorker {
  readonly kubeconfig: string;
  readonly auditLog: string;
}

/** Stores the servers in the environment, which workers that start afterwards inherit. */
export function publishServers(servers: readonly ServerOfWorker[]): void {
  process.env.INTEGRATION_SERVERS = JSON.stringify(servers);
}

/**
 * Returns the server of this worker. jest numbers workers from 1, and a new worker gets the number of the worker that
 * it replaces.
 *
 * @throws Error if the global set-up has not run
 */
export function serverOfWorker(): ServerOfWorker {
  const { INTEGRATION_SERVERS = '[]', JEST_WORKER_ID = '1' } = process.env;
  const servers: readonly ServerOfWorker[] = JSON.parse(INTEGRATION_SERVERS);
  const server = servers[Number(JEST_WORKER_ID) - 1];
  if (server === undefined) throw new Error(`there is no API server for worker ${JEST_WORKER_ID}`);
  return server;
}
