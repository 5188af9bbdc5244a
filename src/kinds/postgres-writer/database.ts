import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@echoperator/runtime';
import { cutErrorTexts, type Gate } from '@echoperator/runtime/client';
import { Semaphore } from '@echoperator/runtime/controller';
import { Circuit } from '../../external/circuit.ts';
import { ConnectionFailedError, databaseReasonOf, sqlStateOf, tableReasonOf, UnfitTableError } from './errors.ts';
import {
  type Credentials,
  type DatabaseSettings,
  isUnanswered,
  type NamedPool,
  openPool,
  readCredentials,
} from './pool.ts';
import { StaleBackends } from './stale-backends.ts';
import { ping, type Statement } from './statements.ts';

/** Options of a {@link Database}. */
export interface DatabaseOptions {
  readonly settings: DatabaseSettings;
  readonly log: Logger;
  /** The gate that each statement must pass when it is sent. Default: none. */
  readonly gate?: Gate | undefined;
}

/** The connections to the database, and the statements that wait for one. */
export interface ConnectionCounts {
  readonly idle: number;
  readonly inUse: number;
  readonly waitingStatements: number;
}

const closeTimeoutMs = 1000;

/**
 * The database: a connection pool behind a circuit, so that an outage costs one attempt every few seconds. Each
 * statement is its own transaction. No statement is sent while an earlier one without an answer may still run.
 */
export class Database {
  readonly #options: DatabaseOptions;
  readonly #circuit: Circuit;
  readonly #connections: Semaphore;
  readonly #closing = new AbortController();
  /** Aborted when no further statement may begin and those in flight must end. */
  readonly #ended: AbortSignal;
  readonly #stale = new StaleBackends();
  #opened: { readonly credentials: Credentials; readonly pool: Promise<NamedPool> } | undefined;
  /** The pool of {@link #opened}, or an earlier one while that is being opened. */
  #lastPool: NamedPool['pool'] | undefined;

  constructor(options: DatabaseOptions) {
    const { settings, log, gate } = options;
    this.#options = options;
    this.#ended = gate === undefined ? this.#closing.signal : AbortSignal.any([gate.signal, this.#closing.signal]);
    this.#connections = new Semaphore(settings.poolSize);
    this.#circuit = new Circuit({
      system: `the database ${settings.host}:${settings.port}/${settings.dbname}`,
      reasonOf: databaseReasonOf,
      isResponse: (error) => tableReasonOf(error) !== undefined,
      log,
    });
  }

  /**
   * Executes a statement.
   *
   * @returns the rows as objects by column. The caller must know the types of the columns.
   * @throws ExternalSystemDownError if the database cannot be used; pg's DatabaseError if it refuses the statement; any error
   *   of the gate.
   */
  query<R extends object>(statement: Statement): Promise<readonly R[]> {
    // Check the circuit after the wait for a connection, so that no connection is opened during an outage.
    return this.#connections.use(() => this.#circuit.call(() => this.#answer<R>(statement)));
  }

  /** Whether the database cannot be used, as far as is known: until a call succeeds. */
  get isDown(): boolean {
    return this.#circuit.isOpen;
  }

  /** Counts the connections of the current pool, not those of earlier credentials, which end soon. */
  connections(): ConnectionCounts {
    const { totalCount = 0, idleCount = 0 } = this.#lastPool ?? {};
    return { idle: idleCount, inUse: totalCount - idleCount, waitingStatements: this.#connections.waiting };
  }

  /** Closes the connections, also those with a statement in flight. Waits up to a second. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the connection to the database is closed'));
    const opened = await this.#opened?.pool;
    if (opened === undefined) return;
    await Promise.race([opened.pool.end(), delay(closeTimeoutMs, undefined, { ref: false })]);
  }

  /** After a statement without an answer, finds out on another connection whether the database answers at all. */
  async #answer<R extends object>(statement: Statement): Promise<readonly R[]> {
    try {
      return await this.#query<R>(statement);
    } catch (error) {
      if (!(error instanceof ConnectionFailedError && isUnanswered(error.cause))) throw error;
      this.#renewPool();
      await this.#query(ping);
      throw new UnfitTableError('TableBusy', 'the statement was not answered in time and has been cancelled');
    }
  }

  async #query<R extends object>(statement: Statement): Promise<readonly R[]> {
    // A closed gate lets no connection be opened either.
    this.#options.gate?.pass(statement.text);
    const ended = this.#ended;
    const { pool, nameOf } = await this.#pool();
    const client = await pool.connect().catch(rethrow);
    const disconnect = (): void => void client.connection.stream.destroy();
    ended.addEventListener('abort', disconnect, { once: true });
    const send = async <Q extends object>({ text, values }: Statement): Promise<readonly Q[]> => {
      ended.throwIfAborted();
      this.#options.gate?.pass();
      return (await client.query<Q>({ text, values: [...values] }).catch(rethrow)).rows;
    };
    let isReusable = false;
    let sent = false;
    try {
      await this.#stale.end(send);
      sent = true;
      const rows = await send<R>(statement);
      isReusable = true;
      return rows;
    } catch (error) {
      if (sent && error instanceof ConnectionFailedError) this.#stale.add(nameOf(client));
      ended.throwIfAborted();
      isReusable = !(error instanceof ConnectionFailedError) && databaseReasonOf(error) === undefined;
      throw error;
    } finally {
      ended.removeEventListener('abort', disconnect);
      client.release(!isReusable);
    }
  }

  /** The pool for the current credentials. Connections of an earlier pool end when they have been idle for a while. */
  async #pool(): Promise<NamedPool> {
    const credentials = await readCredentials(this.#options.settings);
    const opened = this.#opened;
    if (opened !== undefined && isDeepStrictEqual(opened.credentials, credentials)) return opened.pool;
    const { settings, log } = this.#options;
    const pool = openPool(settings, credentials, { log, nextName: () => this.#stale.nextName() });
    this.#opened = { credentials, pool };
    this.#lastPool = (await pool).pool;
    return pool;
  }

  /** Replaces the pool: its idle connections may be dead like the one that did not answer. */
  #renewPool(): void {
    const opened = this.#opened;
    this.#opened = undefined;
    void opened?.pool.then(({ pool }) => pool.end());
  }
}

/** @throws the error itself if it is an answer of PostgreSQL, otherwise ConnectionFailedError. */
function rethrow(error: unknown): never {
  // A trigger may word an error of any length, and the library puts the row into its detail.
  cutErrorTexts(error);
  throw sqlStateOf(error) === undefined ? new ConnectionFailedError(error) : error;
}
