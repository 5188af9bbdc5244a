/** The API server that a worker of jest has to itself. */
export interface ServerOfWorker {
  readonly kubeconfig: string;
  readonly auditLog: string;
}

/** Says where the servers are; workers that are started afterwards inherit it. */
export function tellWorkers(servers: readonly ServerOfWorker[]): void {
  process.env.INTEGRATION_SERVERS = JSON.stringify(servers);
}

/**
 * That of this worker: jest numbers them from 1 on, and gives a new one the number of the one that it replaces.
 *
 * @throws Error if the global set-up has not run.
 */
export function serverOfWorker(): ServerOfWorker {
  const { INTEGRATION_SERVERS = '[]', JEST_WORKER_ID = '1' } = process.env;
  const servers: readonly ServerOfWorker[] = JSON.parse(INTEGRATION_SERVERS);
  const server = servers[Number(JEST_WORKER_ID) - 1];
  if (server === undefined) throw new Error(`there is no API server for worker ${JEST_WORKER_ID}`);
  return server;
}
