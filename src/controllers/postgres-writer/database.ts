import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Gate, Logger } from '../../runtime/index.ts';
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

/** What a {@link Database} is made of. */
export interface DatabaseOptions {
  readonly settings: DatabaseSettings;
  readonly log: Logger;
  /** Passed by each statement in the moment in which it leaves. Default: none. */
  readonly gate?: Gate | undefined;
  /** Is told when the database is found down, and when it is back. */
  readonly onChange?: (up: boolean) => void;
}

const closeTimeoutMs = 1000;

/**
 * The way to the database: one pool, and a circuit, so that an outage costs one try every few seconds. Each statement is a
 * transaction of its own, and none is sent while an earlier one of unknown end may be under way.
 */
export class Database {
  readonly #options: DatabaseOptions;
  readonly #circuit: Circuit;
  readonly #connections: Semaphore;
  readonly #closing = new AbortController();
  /** Aborted when no statement may begin any more, and those under way have to end. */
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
   * @returns the rows, each as an object of its columns, which the caller has to know.
   * @throws OutsideDownError when the database cannot be used; pg's DatabaseError where it refuses the statement; what the
   *   gate throws.
   */
  query<R extends object>(statement: Statement): Promise<readonly R[]> {
    // Who waits for a connection finds the circuit cut when its turn comes, and asks for none.
    return this.#connections.use(() => this.#circuit.call(() => this.#answer<R>(statement)));
  }

  /** Ends the connections, also those on which an answer is awaited; whoever does not let go within a second is left. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the way to the database is closed'));
    const opened = await this.#opened?.pool;
    if (opened === undefined) return;
    await Promise.race([opened.pool.end(), delay(closeTimeoutMs, undefined, { ref: false })]);
  }

  /** Of a statement that is not answered, another connection tells whether the database answers nothing, or not this one. */
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
    // A connection that breaks says so to the query and, a second time, to whoever listens, or else to the whole process.
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

  /** The pool of the present credentials. The connections of one before it end when they have been idle for a while. */
  async #pool(): Promise<NamedPool> {
    const credentials = await readCredentials(this.#options.settings);
    const opened = this.#opened;
    if (opened !== undefined && isDeepStrictEqual(opened.credentials, credentials)) return opened.pool;
    const { settings, log } = this.#options;
    const pool = openPool(settings, credentials, { log, nextName: () => this.#stale.nextName() });
    this.#opened = { credentials, pool };
    return pool;
  }

  /** The connections that are idle may be as dead as the one that did not answer. */
  #renew(): void {
    const opened = this.#opened;
    this.#opened = undefined;
    void opened?.pool.then(({ pool }) => pool.end());
  }
}

/** @throws the error if it is PostgreSQL's word; else it tells of the connection, and is thrown as that. */
function refuse(error: unknown): never {
  throw sqlStateOf(error) === undefined ? new ConnectionFailedError(error) : error;
}

const ignore = (): void => {};
