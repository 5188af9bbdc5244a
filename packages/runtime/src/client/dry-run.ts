import type { Connection } from './connection.ts';

/**
 * Returns the connection as one over which every write is a dry run: the API server processes and admits it, and stores
 * nothing. The transport enforces this, so it holds for every client of the connection.
 *
 * Assumes that each write goes to a path that supports `dryRun`. All paths of objects do, and admission webhooks with
 * side effects make the server refuse the request.
 */
export function dryRunConnection(connection: Connection): Connection {
  const { server, proxy, openPool, invalidate } = connection;
  return {
    server,
    ...(proxy !== undefined && { proxy }),
    ...(openPool !== undefined && { openPool }),
    get tls() {
      return connection.tls;
    },
    authentication: () => connection.authentication(),
    ...(invalidate !== undefined && { invalidate: invalidate.bind(connection) }),
    isDryRunOnly: true,
  };
}

/** The part of a request that {@link asDryRun} changes. */
interface DryRunParts {
  readonly method: string;
  readonly query?: string | undefined;
  readonly body?: unknown;
}

/** Returns the request as a dry run. A read stays as it is. */
export function asDryRun<R extends DryRunParts>(request: R): R {
  if (request.method === 'GET') return request;
  const others = (request.query ?? '').split('&').filter((part) => part !== '' && !part.startsWith('dryRun='));
  const query = [...others, 'dryRun=All'].join('&');
  if (request.method !== 'DELETE') return { ...request, query };
  // If a deletion has a body, the API server ignores the options of its query (k8s.io/apiserver, handlers/delete.go).
  const options = { apiVersion: 'v1', kind: 'DeleteOptions', ...(request.body as object | undefined) };
  return { ...request, query, body: { ...options, dryRun: ['All'] } };
}
