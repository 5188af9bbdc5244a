import type { ClientConfig, Pool } from 'pg';
import type { Logger } from '../../runtime/index.ts';
import type { Credentials, DatabaseSettings } from './connection-settings.ts';

/** How long the lock of a table may be waited for: all that is meant for the same table waits too. */
const lockTimeoutMs = 500;

/** The server ends a statement that takes too long. If it does not say so by then, nobody is there any more. */
const answerGraceMs = 3000;

/** Idle connections are kept: the next change may come at any time. But not those of credentials long changed. */
const maxLifetimeSeconds = 3600;

/** Connections to a database, opened on demand. */
export interface NamedPool {
  readonly pool: Pool;
  /** The name of one of its connections: its `application_name`. */
  nameOf(client: object): string;
}

/** @param nextName names each connection, before it is opened. */
export async function openPool(
  settings: DatabaseSettings,
  credentials: Credentials,
  { log, nextName }: { readonly log: Logger; readonly nextName: () => string },
): Promise<NamedPool> {
  // On demand: who has no database does not pay for its client.
  const { Pool: PgPool, Client } = await import('pg');
  const names = new WeakMap<object, string>();
  class NamedClient extends Client {
    constructor(config?: ClientConfig) {
      const name = nextName();
      // Not a copy: the pool hides the password from whoever lists its options.
      super(Object.create(config ?? null, { application_name: { value: name } }));
      names.set(this, name);
    }
  }
  const { host, port, dbname: database, poolSize: max, connectTimeoutSeconds, statementTimeoutSeconds } = settings;
  const statement_timeout = Math.ceil(statementTimeoutSeconds * 1000);
  const pool = new PgPool({
    Client: NamedClient,
    host,
    port,
    database,
    max,
    user: credentials.user,
    password: credentials.password,
    connectionTimeoutMillis: connectTimeoutSeconds * 1000,
    ssl: tlsOf(settings, credentials),
    keepAlive: true,
    statement_timeout,
    lock_timeout: Math.min(lockTimeoutMs, statement_timeout),
    query_timeout: statement_timeout + answerGraceMs,
    idleTimeoutMillis: 60_000,
    maxLifetimeSeconds,
    allowExitOnIdle: true,
  });
  // What an idle connection broke of, the next statement finds out, if it lasts. The error has the whole client on it.
  pool.on('error', ({ message }) => log.debug({ error: message }, 'an idle connection to the database broke'));
  return { pool, nameOf: (client) => names.get(client) ?? '' };
}

/** The client has had no answer for longer than the server was to take. The client library has no code for it. */
export const isUnanswered = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Query read timeout';

function tlsOf(
  { sslmode }: DatabaseSettings,
  { ca }: Credentials,
): false | { rejectUnauthorized: boolean; ca?: string } {
  if (sslmode === 'disable') return false;
  if (sslmode === 'require') return { rejectUnauthorized: false };
  return { rejectUnauthorized: true, ...(ca !== undefined && { ca }) };
}
