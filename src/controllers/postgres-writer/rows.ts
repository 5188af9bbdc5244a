import type { Logger } from '../../runtime/index.ts';
import { Circuit, OutsideDownError } from '../outside/index.ts';
import { Batch } from './batch.ts';
import type { Database } from './database.ts';
import { isLocked, isRowFault, isTableMissing, tableReasonOf } from './faults.ts';
import type { Rendezvous } from './rendezvous.ts';
import type { Row } from './row.ts';
import { deleteRows, upsert } from './statements.ts';
import { type Table, tableText } from './table-name.ts';

/** Whether a row had to be written, or was as it should be. */
export type Written = 'written' | 'unchanged';

/** Rows to a statement at the most: enough for its cost to be shared, and few enough to be tried again one by one. */
export const maxRows = 100;

/** For how long a row may wait for others that are on the way: where these take long, the API server has enough to do. */
const maxWaitMs = 3000;

/** The pauses between two looks at a table that cannot be used. A person, or a lock, is what is waited for. */
const probes = { probeAfterMs: 1000, maxProbeAfterMs: 15_000 } as const;

/** The circuit of a table, by whichever of its names. */
export const tableCircuit = (name: string, log: Logger): Circuit =>
  new Circuit({ system: `the table ${name}`, reasonOf: tableReasonOf, log, ...probes });

/**
 * The rows of one table. What is asked for at about the same time becomes one statement; and there is one at a time, so that
 * no two of ours wait for each other's locks.
 */
export class Rows {
  readonly #table: Table;
  readonly #database: Pick<Database, 'query'>;
  readonly #circuit: Circuit;
  readonly #upserts: Batch<Row, Written>;
  readonly #deletions: Batch<string, 'deleted'>;

  constructor(
    table: Table,
    options: { readonly database: Pick<Database, 'query'>; readonly rendezvous: Rendezvous; readonly log: Logger },
  ) {
    const { database, rendezvous, log } = options;
    this.#table = table;
    this.#database = database;
    this.#circuit = tableCircuit(tableText(table), log);
    const shared = { rendezvous, maxItems: maxRows, maxWaitMs };
    this.#upserts = new Batch({ ...shared, execute: (rows) => this.#circuit.call(() => this.#upsert(rows)) });
    this.#deletions = new Batch({ ...shared, execute: (ids) => this.#circuit.call(() => this.#delete(ids)) });
  }

  /**
   * Makes the row be there, just so.
   *
   * @throws OutsideDownError when the table or the database cannot be used; pg's DatabaseError when it refuses this row, or
   *   somebody else has it locked.
   */
  upsert(row: Row): Promise<Written> {
    return this.#upserts.add(row);
  }

  /**
   * Deletes the row, if it is there. A table that is not there has none.
   *
   * @throws OutsideDownError as {@link upsert}.
   */
  async delete(id: string): Promise<void> {
    try {
      await this.#deletions.add(id);
    } catch (error) {
      // An upsert has found that the table is missing, and the circuit refuses this one too.
      if (!(error instanceof OutsideDownError && isTableMissing(error.cause))) throw error;
    }
  }

  async #upsert(rows: readonly Row[]): Promise<readonly (Written | Error)[]> {
    try {
      return await this.#write(rows);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      if (isRowFault(error)) return rows.length === 1 ? [error] : this.#inHalves(rows);
      if (isLocked(error)) return rows.length === 1 ? [error] : this.#aroundLock(rows, error);
      throw error;
    }
  }

  async #write(rows: readonly Row[]): Promise<readonly Written[]> {
    const written = await this.#database.query<{ readonly id: string }>(upsert(this.#table, rows));
    const ids = new Set(written.map(({ id }) => id));
    return rows.map(({ id }) => (ids.has(id) ? 'written' : 'unchanged'));
  }

  /** One row is refused, and with it the whole statement: to halve finds it soon, and the others are written. */
  async #inHalves(rows: readonly Row[]): Promise<readonly (Written | Error)[]> {
    const middle = rows.length >> 1;
    return [...(await this.#upsert(rows.slice(0, middle))), ...(await this.#upsert(rows.slice(middle)))];
  }

  /**
   * A lock holds up the statement: that of a row, and one half goes through, or that of the table, and neither does. Each
   * try at what is locked takes as long as a lock is waited for.
   */
  async #aroundLock(rows: readonly Row[], locked: Error): Promise<readonly (Written | Error)[]> {
    const middle = rows.length >> 1;
    const halves = [rows.slice(0, middle), rows.slice(middle)];
    const outcomes: (readonly Written[] | Obstacle)[] = [];
    for (const half of halves) outcomes.push(await this.#write(half).catch(obstacleIn));
    if (outcomes.every((outcome) => outcome === 'locked')) throw locked;
    const results: (Written | Error)[] = [];
    for (const [index, half] of halves.entries()) {
      const outcome = outcomes[index];
      if (outcome === 'locked' && half.length > 1) {
        results.push(...(await this.#aroundLock(half, locked).catch((error: unknown) => strike(half, error))));
      } else if (outcome === 'locked') results.push(locked);
      else if (outcome === 'refused') results.push(...(await this.#upsert(half)));
      else results.push(...(outcome ?? []));
    }
    return results;
  }

  async #delete(ids: readonly string[]): Promise<readonly 'deleted'[]> {
    try {
      await this.#database.query(deleteRows(this.#table, ids));
    } catch (error) {
      if (!isTableMissing(error)) throw error;
    }
    return ids.map(() => 'deleted');
  }
}

/** What keeps some rows from being written, and others perhaps not. */
type Obstacle = 'locked' | 'refused';

function obstacleIn(error: unknown): Obstacle {
  if (isLocked(error)) return 'locked';
  if (isRowFault(error)) return 'refused';
  throw error;
}

/** More than one row is locked: all of these wait. */
function strike(rows: readonly Row[], error: unknown): readonly Error[] {
  if (!(error instanceof Error) || !isLocked(error)) throw error;
  return rows.map(() => error);
}
