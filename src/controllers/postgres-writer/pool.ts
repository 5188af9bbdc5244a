import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClientConfig, Pool } from 'pg';
import type { Logger } from '../../runtime/index.ts';
import { CredentialsError } from './errors.ts';

/** How to reach the database, from the operator's settings. */
export interface DatabaseSettings {
  readonly host: string;
  readonly port: number;
  readonly dbname: string;
  /** The role. Absent if a file of {@link credentialsDir} has it. */
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /**
   * A folder with the files `PSQL_USER` and `PSQL_PASSWORD`, as a Secret is mounted. Read before each statement; overrides
   * {@link user} and {@link password}.
   */
  readonly credentialsDir?: string | undefined;
  /** `require`: TLS without checking the certificate; `verify-full`: the certificate names the host and is trusted. */
  readonly sslmode: 'disable' | 'require' | 'verify-full';
  /** The file of the trusted authorities, read before each statement. Default: those of Node. */
  readonly sslrootcert?: string | undefined;
  /** Connections at the most. */
  readonly poolSize: number;
  /** How long opening a connection may take. */
  readonly connectTimeoutSeconds: number;
  /** How long a statement may run, including its wait for locks. */
  readonly statementTimeoutSeconds: number;
}

/** The settings that may change while the operator runs, when a Secret is renewed. */
export interface Credentials {
  readonly user: string;
  readonly password: string | undefined;
  readonly ca: string | undefined;
}

/** @throws CredentialsError if a required file cannot be read. */
export async function readCredentials(settings: DatabaseSettings): Promise<Credentials> {
  const { credentialsDir, sslmode, sslrootcert } = settings;
  const inFolder = (name: string): Promise<string | undefined> =>
    credentialsDir === undefined ? Promise.resolve(undefined) : readOptional(join(credentialsDir, name));
  const user = (await inFolder('PSQL_USER')) ?? settings.user;
  const password = (await inFolder('PSQL_PASSWORD')) ?? settings.password;
  if (user === undefined) throw new CredentialsError(`there is no file PSQL_USER in ${credentialsDir}`);
  const ca = sslmode === 'verify-full' && sslrootcert !== undefined ? await readOptional(sslrootcert) : undefined;
  if (ca === undefined && sslmode === 'verify-full' && sslrootcert !== undefined) {
    throw new CredentialsError(`there is no file ${sslrootcert}`);
  }
  return { user, password, ca };
}

/** The text of a file without a line feed at its end; undefined if there is no file. */
async function readOptional(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).replace(/\r?\n$/, '');
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw new CredentialsError(`${path} cannot be read`, { cause });
  }
}

const isMissing = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && 'code' in error && error.code === 'ENOENT';

/** How long a statement waits for the lock of a table, in milliseconds: everything for that table waits with it. */
const lockTimeoutMs = 500;

/** How much later than the server the client gives up a statement, in milliseconds: then the connection is dead. */
const answerGraceMs = 3000;

/** Idle connections are kept, but not for longer: their credentials may be old ones. */
const maxLifetimeSeconds = 3600;

/** Connections to a database, opened on demand. */
export interface NamedPool {
  readonly pool: Pool;
  /** The name of one of its connections: its `application_name`. */
  nameOf(client: object): string;
}

/** @param nextName returns the name of the next connection. */
export async function openPool(
  settings: DatabaseSettings,
  credentials: Credentials,
  { log, nextName }: { readonly log: Logger; readonly nextName: () => string },
): Promise<NamedPool> {
  // Loaded on demand: an operator without a database does without it.
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
  // If the cause lasts, the next statement meets it. Only the message is logged: the error holds the whole client.
  pool.on('error', ({ message }) => log.debug({ error: message }, 'an idle connection to the database broke'));
  return { pool, nameOf: (client) => names.get(client) ?? '' };
}

/** Whether the client has given up a statement that was not answered. The client library has no code for it. */
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
