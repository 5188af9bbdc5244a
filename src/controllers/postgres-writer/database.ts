import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Gate } from '../../runtime/client/index.ts';
import type { Logger } from '../../runtime/index.ts';
import { Circuit, Semaphore } from '../outside/index.ts';
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
import { nothing, type Statement } from './statements.ts';

/** What a {@link Database} needs. */
export interface DatabaseOptions {
  readonly settings: DatabaseSettings;
  readonly log: Logger;
  /** Passed by each statement as it is sent. Default: none. */
  readonly gate?: Gate | undefined;
  /** Called when the database is found down, and when it is back. */
  readonly onChange?: (up: boolean) => void;
}

const closeTimeoutMs = 1000;

/**
 * The database: a pool, and a circuit, so that an outage costs one attempt every few seconds. Each statement is a transaction of
 * its own. None is sent while an earlier one, whose answer was lost, may still run.
 */
export class Database {
  readonly #options: DatabaseOptions;
  readonly #circuit: Circuit;
  readonly #connections: Semaphore;
  readonly #closing = new AbortController();
  /** Aborted when no statement may begin any more, and those in flight have to end. */
  readonly #ended: AbortSignal;
  readonly #stale = new StaleBackends();
  #opened: { readonly credentials: Credentials; readonly pool: Promise<NamedPool> } | undefined;

  constructor(options: DatabaseOptions) {
    const { settings, log, gate, onChange } = options;
    this.#options = options;
    this.#ended = gate === undefined ? this.#closing.signal : AbortSignal.any([gate.signal, this.#closing.signal]);
    this.#connections = new Semaphore(settings.poolSize);
    this.#circuit = new Circuit({
      system: `the database ${settings.host}:${settings.port}/${settings.dbname}`,
      reasonOf: databaseReasonOf,
      isAnswer: (error) => tableReasonOf(error) !== undefined,
      log,
      ...(onChange && { onChange }),
    });
  }

  /**
   * Executes a statement.
   *
   * @returns the rows, each as an object of its columns, whose types the caller has to know.
   * @throws OutsideDownError if the database cannot be used; pg's DatabaseError if it refuses the statement; what the gate throws.
   */
  query<R extends object>(statement: Statement): Promise<readonly R[]> {
    // A statement that waits for a connection meets the circuit when its turn comes, and during an outage opens none.
    return this.#connections.use(() => this.#circuit.call(() => this.#answer<R>(statement)));
  }

  /** Closes the connections, also those with a statement in flight, and waits a second at the most for their end. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the connection to the database is closed'));
    const opened = await this.#opened?.pool;
    if (opened === undefined) return;
    await Promise.race([opened.pool.end(), delay(closeTimeoutMs, undefined, { ref: false })]);
  }

  /** If a statement is not answered, another connection tells whether the database answers at all. */
  async #answer<R extends object>(statement: Statement): Promise<readonly R[]> {
    try {
      return await this.#query<R>(statement);
    } catch (error) {
      if (!(error instanceof ConnectionFailedError && isUnanswered(error.cause))) throw error;
      this.#renew();
      await this.#query(nothing);
      throw new UnfitTableError('TableBusy', 'the statement was not answered in time, and is ended');
    }
  }

  async #query<R extends object>(statement: Statement): Promise<readonly R[]> {
    const ended = this.#ended;
    const { pool, nameOf } = await this.#pool();
    const client = await pool.connect().catch(refuse);
    const cut = (): void => void client.connection.stream.destroy();
    // A connection that breaks rejects the query and also emits an error, which would end the process without a listener.
    client.on('error', ignore);
    ended.addEventListener('abort', cut, { once: true });
    const ask = async <Q extends object>({ text, values }: Statement): Promise<readonly Q[]> => {
      ended.throwIfAborted();
      this.#options.gate?.pass();
      return (await client.query<Q>({ text, values: [...values] }).catch(refuse)).rows;
    };
    let answered = false;
    let sent = false;
    try {
      await this.#stale.end(ask);
      sent = true;
      const rows = await ask<R>(statement);
      answered = true;
      return rows;
    } catch (error) {
      if (sent && error instanceof ConnectionFailedError) this.#stale.add(nameOf(client));
      ended.throwIfAborted();
      answered = !(error instanceof ConnectionFailedError) && databaseReasonOf(error) === undefined;
      throw error;
    } finally {
      ended.removeEventListener('abort', cut);
      client.off('error', ignore);
      client.release(!answered);
    }
  }

  /** The pool of the present credentials. The connections of the pool before it end when they have been idle for a while. */
  async #pool(): Promise<NamedPool> {
    const credentials = await readCredentials(this.#options.settings);
    const opened = this.#opened;
    if (opened !== undefined && isDeepStrictEqual(opened.credentials, credentials)) return opened.pool;
    const { settings, log } = this.#options;
    const pool = openPool(settings, credentials, { log, nextName: () => this.#stale.nextName() });
    this.#opened = { credentials, pool };
    return pool;
  }

  /** Replaces the pool: its idle connections may be as dead as the one that did not answer. */
  #renew(): void {
    const opened = this.#opened;
    this.#opened = undefined;
    void opened?.pool.then(({ pool }) => pool.end());
  }
}

/** @throws the error if it is an answer of PostgreSQL; else ConnectionFailedError. */
function refuse(error: unknown): never {
  throw sqlStateOf(error) === undefined ? new ConnectionFailedError(error) : error;
}

const ignore = (): void => {};
