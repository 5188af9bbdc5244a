import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Pool, PoolClient } from 'pg';
import type { Gate, Logger } from '../../runtime/index.ts';
import { Circuit } from '../outside/index.ts';
import { type Credentials, type DatabaseSettings, readCredentials } from './connection-settings.ts';
import { ConnectionFailedError, databaseReasonOf, sqlStateOf } from './faults.ts';
import { Slots } from './slots.ts';
import type { Statement } from './statements.ts';

/** What a {@link Database} is made of. */
export interface DatabaseOptions {
  readonly settings: DatabaseSettings;
  readonly log: Logger;
  /** Passed by each statement in the moment in which it leaves. Default: none. */
  readonly gate?: Gate | undefined;
  /** Is told when the database is found down, and when it is back. */
  readonly onChange?: (up: boolean) => void;
}

/** How long a lock of others may be waited for: all that is meant for the same table waits too. */
const lockTimeoutMs = 2000;

/** The server ends a statement that takes too long. If it does not say so by then, nobody is there any more. */
const answerGraceMs = 3000;

const closeTimeoutMs = 1000;

/** Idle connections are kept: the next change may come at any time. But not those of credentials long changed. */
const maxLifetimeSeconds = 3600;

/**
 * The way to the database: one pool, and a circuit, so that an outage costs one try every few seconds. Each statement is a
 * transaction of its own.
 */
export class Database {
  readonly #options: DatabaseOptions;
  readonly #circuit: Circuit;
  readonly #slots: Slots;
  readonly #closing = new AbortController();
  /** Aborted when no statement may begin any more, and those under way have to end. */
  readonly #ended: AbortSignal;
  #opened: { readonly credentials: Credentials; readonly pool: Promise<Pool> } | undefined;

  constructor(options: DatabaseOptions) {
    const { settings, log, gate, onChange } = options;
    this.#options = options;
    this.#ended = gate === undefined ? this.#closing.signal : AbortSignal.any([gate.signal, this.#closing.signal]);
    this.#slots = new Slots(settings.poolSize);
    this.#circuit = new Circuit({
      system: `the database ${settings.host}:${settings.port}/${settings.dbname}`,
      reasonOf: databaseReasonOf,
      log,
      ...(onChange && { onChange }),
    });
  }

  /**
   * @returns the rows, each as an object of its columns, which the caller has to know.
   * @throws OutsideDownError when the database cannot be used; pg's DatabaseError where it refuses the statement; what the
   *   gate throws.
   */
  query<R extends object>(statement: Statement): Promise<readonly R[]> {
    // Who waits for a connection finds the circuit cut when its turn comes, and asks for none.
    return this.#slots.use(() => this.#circuit.call(() => this.#query<R>(statement)));
  }

  /** Ends the connections, also those on which an answer is awaited; whoever does not let go within a second is left. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the way to the database is closed'));
    const pool = await this.#opened?.pool;
    if (pool === undefined) return;
    await Promise.race([pool.end(), delay(closeTimeoutMs, undefined, { ref: false })]);
  }

  async #query<R extends object>({ text, values }: Statement): Promise<readonly R[]> {
    const ended = this.#ended;
    const client = await this.#connect();
    const cut = (): void => void client.connection.stream.destroy();
    // A connection that breaks says so to the query and, a second time, to whoever listens, or else to the whole process.
    client.on('error', ignore);
    ended.addEventListener('abort', cut, { once: true });
    let answered = false;
    try {
      ended.throwIfAborted();
      this.#options.gate?.pass();
      const { rows } = await client.query<R>({ text, values: [...values] }).catch(refuse);
      answered = true;
      return rows;
    } catch (error) {
      ended.throwIfAborted();
      answered = !(error instanceof ConnectionFailedError) && databaseReasonOf(error) === undefined;
      throw error;
    } finally {
      ended.removeEventListener('abort', cut);
      client.off('error', ignore);
      client.release(!answered);
    }
  }

  async #connect(): Promise<PoolClient> {
    const pool = await this.#pool();
    return pool.connect().catch(refuse);
  }

  /** The pool of the present credentials. The connections of one before it end when they have been idle for a while. */
  async #pool(): Promise<Pool> {
    const credentials = await readCredentials(this.#options.settings);
    const opened = this.#opened;
    if (opened !== undefined && isDeepStrictEqual(opened.credentials, credentials)) return opened.pool;
    const pool = openPool(this.#options, credentials);
    this.#opened = { credentials, pool };
    return pool;
  }
}

async function openPool({ settings, log }: DatabaseOptions, credentials: Credentials): Promise<Pool> {
  // On demand: who has no database does not pay for its client.
  const { Pool: PgPool } = await import('pg');
  const { host, port, dbname: database, poolSize: max, connectTimeoutSeconds, statementTimeoutSeconds } = settings;
  const statement_timeout = Math.ceil(statementTimeoutSeconds * 1000);
  const pool = new PgPool({
    host,
    port,
    database,
    max,
    user: credentials.user,
    password: credentials.password,
    connectionTimeoutMillis: connectTimeoutSeconds * 1000,
    ssl: tlsOf(settings, credentials),
    application_name: 'echoperator',
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
  return pool;
}

function tlsOf(
  { sslmode }: DatabaseSettings,
  { ca }: Credentials,
): false | { rejectUnauthorized: boolean; ca?: string } {
  if (sslmode === 'disable') return false;
  if (sslmode === 'require') return { rejectUnauthorized: false };
  return { rejectUnauthorized: true, ...(ca !== undefined && { ca }) };
}

/** @throws the error if it is PostgreSQL's word; else it tells of the connection, and is thrown as that. */
function refuse(error: unknown): never {
  throw sqlStateOf(error) === undefined ? new ConnectionFailedError(error) : error;
}

const ignore = (): void => {};
