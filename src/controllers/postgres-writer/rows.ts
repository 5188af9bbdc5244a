import { Circuit } from '../outside/index.ts';
import { Batch } from './batch.ts';
import type { Database } from './database.ts';
import { RowRefusedError, tableReasonOf } from './faults.ts';
import { inParts } from './in-parts.ts';
import type { Rendezvous } from './rendezvous.ts';
import { type Row, rowColumns } from './row.ts';
import { deleteRows, findOtherwise, upsert } from './statements.ts';
import { type Table, tableText } from './table-name.ts';

/** What had to be done for a row: nothing, or it was written, and stands there as it was written or as the table will have it. */
export type Written = 'unchanged' | 'written' | 'altered';

/** Rows to a statement at the most: enough for its cost to be shared, and few enough to be tried again one by one. */
export const maxRows = 100;

/** For how long a row may wait for others that are on the way: where these take long, the API server has enough to do. */
const maxWaitMs = 3000;

/** The pauses between two looks at a table that cannot be used. A person, or a lock, is what is waited for. */
const probes = { probeAfterMs: 1000, maxProbeAfterMs: 15_000 } as const;

/** The circuit of a table, by whichever of its names. Names are the users', any number of them: each has a status that says so. */
export const tableCircuit = (name: string): Circuit =>
  new Circuit({ system: `the table ${name}`, reasonOf: tableReasonOf, isAnswer: () => false, ...probes });

/**
 * The rows of one table. What is asked for at about the same time becomes one statement; and there is one at a time, so that
 * no two of ours wait for each other's locks.
 */
export class Rows {
  readonly #table: Table;
  readonly #database: Pick<Database, 'query'>;
  readonly #upserts: Batch<Row, Written>;
  readonly #looks: Batch<Row, boolean>;
  readonly #deletions: Batch<string, 'deleted'>;

  constructor(table: Table, options: { readonly database: Pick<Database, 'query'>; readonly rendezvous: Rendezvous }) {
    const { database, rendezvous } = options;
    this.#table = table;
    this.#database = database;
    const circuit = tableCircuit(tableText(table));
    const shared = { rendezvous, maxItems: maxRows, maxWaitMs };
    this.#upserts = new Batch({
      ...shared,
      execute: (rows) => circuit.call(() => inParts(rows, (some, lockTimeoutMs) => this.#upsert(some, lockTimeoutMs))),
    });
    this.#looks = new Batch({ ...shared, execute: (rows) => circuit.call(() => this.#areThere(rows)) });
    this.#deletions = new Batch({
      ...shared,
      execute: (ids) => circuit.call(() => inParts(ids, (some, lockTimeoutMs) => this.#delete(some, lockTimeoutMs))),
    });
  }

  /**
   * Makes the row be there, just so.
   *
   * @param isKnown whether it was there before. Else one that needed no writing is looked at again: a trigger may have skipped it.
   * @throws OutsideDownError when the table or the database cannot be used; RowRefusedError when the database does not take
   *   this row; RowBusyError when it is locked, or took too long.
   */
  async upsert(row: Row, isKnown = false): Promise<Written> {
    const written = await this.#upserts.add(row);
    if (written !== 'unchanged' || isKnown || (await this.#looks.add(row))) return written;
    throw new RowRefusedError('the table does not take the row: a trigger skips it');
  }

  /**
   * Deletes the row, if it is there.
   *
   * @throws as {@link upsert}.
   */
  async delete(id: string): Promise<void> {
    await this.#deletions.add(id);
  }

  async #upsert(rows: readonly Row[], lockTimeoutMs?: number): Promise<readonly Written[]> {
    const written = await this.#database.query<Row>(upsert(this.#table, rows, lockTimeoutMs));
    const byId = new Map(written.map((row) => [row.id, row]));
    return rows.map((row) => {
      const found = byId.get(row.id);
      if (found === undefined) return 'unchanged';
      return rowColumns.every((column) => found[column] === row[column]) ? 'written' : 'altered';
    });
  }

  async #areThere(rows: readonly Row[]): Promise<readonly boolean[]> {
    const otherwise = await this.#database.query<Pick<Row, 'id'>>(findOtherwise(this.#table, rows));
    const ids = new Set(otherwise.map(({ id }) => id));
    return rows.map(({ id }) => !ids.has(id));
  }

  async #delete(ids: readonly string[], lockTimeoutMs?: number): Promise<readonly 'deleted'[]> {
    await this.#database.query(deleteRows(this.#table, ids, lockTimeoutMs));
    return ids.map(() => 'deleted');
  }
}
