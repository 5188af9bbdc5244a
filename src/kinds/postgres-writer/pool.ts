import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '@echoperator/runtime';
import type { ClientConfig, Pool } from 'pg';
import { CredentialsError } from './errors.ts';

/** The settings of the connection to the database. */
export interface DatabaseSettings {
  readonly host: string;
  readonly port: number;
  readonly dbname: string;
  /** The role. Absent if a file in {@link credentialsDir} contains it. */
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /**
   * A folder with the files `PSQL_USER` and `PSQL_PASSWORD`, such as a mounted Secret. Read before each statement.
   * Overrides {@link user} and {@link password}.
   */
  readonly credentialsDir?: string | undefined;
  /** `require`: TLS without checking the certificate; `verify-full`: the certificate names the host and is trusted. */
  readonly sslmode: 'disable' | 'require' | 'verify-full';
  /**
   * The file with the trusted certificate authorities. Read before each statement. Default: the authorities of Node.
   */
  readonly sslrootcert?: string | undefined;
  /** The most connections. */
  readonly poolSize: number;
  /** How long opening a connection may take. */
  readonly connectTimeoutSeconds: number;
  /** How long a statement may run, including its wait for locks. */
  readonly statementTimeoutSeconds: number;
}

/** The settings that may change while the operator runs, because a Secret is rotated. */
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
  if (user === undefined) throw new CredentialsError(`the file PSQL_USER in ${credentialsDir} does not exist`);
  const ca = sslmode === 'verify-full' && sslrootcert !== undefined ? await readOptional(sslrootcert) : undefined;
  if (ca === undefined && sslmode === 'verify-full' && sslrootcert !== undefined) {
    throw new CredentialsError(`the file ${sslrootcert} does not exist`);
  }
  // Node would trust the public authorities instead.
  if (ca?.trim() === '') throw new CredentialsError(`the file ${sslrootcert} is empty`);
  return { user, password, ca };
}

/** The text of a file without the final line feed. Undefined if the file does not exist. */
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

/**
 * How long a statement waits for the lock of a table, in milliseconds. All other statements on that table wait with it.
 */
const lockTimeoutMs = 500;

/** How much longer than the server's timeout the client waits, in milliseconds. After that the connection is dead. */
const answerGraceMs = 3000;

/** The maximum age of a connection: its credentials may be outdated. */
const maxLifetimeSeconds = 3600;

/** A connection pool that opens connections on demand, and the names of the connections. */
export interface NamedPool {
  readonly pool: Pool;
  /** The `application_name` of a connection. */
  nameOf(client: object): string;
}

/** @param nextName returns the name of the next connection. */
export async function openPool(
  settings: DatabaseSettings,
  credentials: Credentials,
  { log, nextName }: { readonly log: Logger; readonly nextName: () => string },
): Promise<NamedPool> {
  // Loaded on demand: an operator without a database does not need it.
  const { Pool: PgPool, Client } = await import('pg');
  const names = new WeakMap<object, string>();
  class NamedClient extends Client {
    constructor(config?: ClientConfig) {
      const name = nextName();
      // Not a copy: the password is a property of the pool's options that is not enumerable.
      super(Object.create(config ?? null, { application_name: { value: name } }));
      names.set(this, name);
      // A connection that breaks rejects its query and also emits an error, which without a listener ends the process.
      // The pool listens only while a connection is idle: what arrives together with the end of the handshake would
      // come before any later listener.
      this.on('error', () => {});
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
  // If the cause persists, the next statement fails. Log only the message: the error contains the whole client.
  pool.on('error', ({ message }) => log.debug({ error: message }, 'an idle connection to the database broke'));
  return { pool, nameOf: (client) => names.get(client) ?? '' };
}

/** Whether the client has timed out. The client library has no code for that. */
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
