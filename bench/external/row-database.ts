import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { PostgresServer } from '../../testkit/postgres-server.ts';
import type { Figures } from '../measurements.ts';
import { TurnError } from '../running-operator.ts';
import type { External } from './external.ts';

const role = 'bench';

/** One database per way to write rows, because PostgreSQL counts the time of each database. */
const databases = { ours: 'rows', copy: 'copied', inserts: 'inserted' } as const;

/** The number of COPY statements per turn, each into its own table. */
const copies = 5;
/** The share of rows that are also written by an INSERT each. All of them would disturb the operator. */
const insertedPart = 0.1;

const columns = '(id text PRIMARY KEY, name text, age integer, country text)';

/**
 * Starts a PostgreSQL. While the operator writes its rows, the bench repeatedly runs a COPY of as many rows and single
 * INSERTs, so that all are measured with equally busy processors.
 *
 * Measures PostgreSQL's `active_time` of a database: from the arrival of a statement until its response, with parsing,
 * parameters, plan and commit. Like etcd, it runs without fsync.
 */
export async function startRowDatabase(count: number, folder: string): Promise<External> {
  // PostgreSQL runs as another user, who cannot enter the folder of the run.
  const server = await PostgresServer.start(dirname(folder));
  const comparison = new Comparison(server, count);
  try {
    await comparison.prepare();
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
  return {
    environment: {
      CONTROLLERS: 'postgresWriter',
      PSQL_HOST: server.host,
      PSQL_PORT: String(server.port),
      PSQL_DBNAME: databases.ours,
      PSQL_USER: role,
      PSQL_PASSWORD: role,
      PSQL_SSLMODE: 'disable',
    },
    during: (work) => comparison.beside(work),
    figures: () => comparison.figures(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

class Comparison {
  readonly #server: PostgresServer;
  readonly #count: number;
  #file = '';
  #copied = 0;
  #inserted = 0;

  constructor(server: PostgresServer, count: number) {
    this.#server = server;
    this.#count = count;
  }

  async prepare(): Promise<void> {
    const server = this.#server;
    await server.query(`CREATE ROLE ${role} LOGIN PASSWORD '${role}'`);
    for (const database of Object.values(databases)) await server.query(`CREATE DATABASE ${database}`);
    await server.query(`CREATE TABLE students ${columns}; ALTER TABLE students OWNER TO ${role}`, databases.ours);
    await server.query(`CREATE TABLE students ${columns}`, databases.inserts);
    for (let copy = 0; copy < copies; copy++) await server.query(`CREATE TABLE copy${copy} ${columns}`, databases.copy);
    const [setting] = await server.query<{ readonly folder: string }>(
      "SELECT current_setting('data_directory') AS folder",
    );
    this.#file = `'${setting?.folder}/rows'`;
    const rows = `SELECT 'bench/row-' || i, 'row-' || i, 21, 'Peru' FROM generate_series(0, ${this.#count - 1}) AS i`;
    await server.query(`COPY (${rows}) TO ${this.#file}`);
    for (const database of Object.values(databases)) await server.query('SELECT pg_stat_reset()', database);
    await server.query('SELECT pg_stat_statements_reset()');
  }

  async beside(work: () => Promise<void>): Promise<void> {
    const ending = new AbortController();
    const compared = this.#compare(ending.signal);
    try {
      await work();
    } finally {
      ending.abort();
      await compared;
    }
  }

  /** @throws TurnError */
  async figures(): Promise<Figures> {
    const server = this.#server;
    const [called] = await server.query<{ readonly calls: string }>(
      `SELECT sum(calls) AS calls FROM pg_stat_statements WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = '${role}')`,
    );
    const rowsDatabaseMs = await this.#activeMs(databases.ours);
    const copyMs = (await this.#activeMs(databases.copy)) / this.#copied;
    const insertsMs = ((await this.#activeMs(databases.inserts)) * this.#count) / this.#inserted;
    const [row] = await server.query<{ readonly count: string }>('SELECT count(*) FROM students', databases.ours);
    if (Number(row?.count) !== this.#count) {
      throw new TurnError(`${row?.count} rows for ${this.#count} PostgresWriters`);
    }
    return {
      rowStatements: Number(called?.calls),
      rowsDatabaseMs,
      rowsToCopy: rowsDatabaseMs / copyMs,
      rowsToInserts: rowsDatabaseMs / insertsMs,
    };
  }

  /** The active time of ended sessions. */
  async #activeMs(database: string): Promise<number> {
    const [row] = await this.#server.query<{ readonly ms: number }>(
      `SELECT active_time AS ms FROM pg_stat_database WHERE datname = '${database}'`,
    );
    return Number(row?.ms);
  }

  async #compare(ending: AbortSignal): Promise<void> {
    const copier = await this.#server.connect(databases.copy);
    const inserter = await this.#server.connect(databases.inserts);
    try {
      do {
        await copier.query(`COPY copy${this.#copied} FROM ${this.#file}`);
        this.#copied += 1;
        await this.#insert(inserter, Math.ceil((this.#count * insertedPart) / copies));
        // Spread over the shortest duration of a turn: 200 rows per second.
        await delay((this.#count * 5) / copies, undefined, { signal: ending }).catch(() => {});
      } while (this.#copied < copies && !ending.aborted);
    } finally {
      await Promise.all([copier.end(), inserter.end()]);
    }
  }

  async #insert(inserter: Client, count: number): Promise<void> {
    const text = 'INSERT INTO students (id, name, age, country) VALUES ($1, $2, $3, $4)';
    for (let left = count; left > 0; left--) {
      const name = `row-${this.#inserted++}`;
      await inserter.query(text, [`bench/${name}`, name, 21, 'Peru']);
    }
  }
}
