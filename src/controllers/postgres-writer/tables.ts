import { Batch, Circuit, type InFlightCount } from '../outside/index.ts';
import type { Database } from './database.ts';
import { isBusy, RowBusyError, RowRefusedError, tableReasonOf, UnfitTableError } from './errors.ts';
import {
  deleteRows,
  findOtherwise,
  findTable,
  type Row,
  rowColumns,
  type Table,
  type TableName,
  tableText,
  upsert,
} from './statements.ts';

/** How long the table of a name is remembered, in milliseconds. Then the catalogue is queried again. */
const knownForMs = 30_000;

/**
 * How long the circuit of a name is kept after its last use, in milliseconds: longer than a circuit makes its callers wait. Users
 * may make up any number of names.
 */
const rememberedForMs = 60_000;

interface KnownName {
  readonly circuit: Circuit;
  table: Promise<Table> | undefined;
  untilMs: number;
  askedAtMs: number;
}

interface FoundTable extends Table {
  readonly columns: readonly string[];
}

/** The tables of the database, by name, and the rows of each. */
export class Tables {
  readonly #database: Pick<Database, 'query'>;
  readonly #inFlight: InFlightCount;
  readonly #known = new Map<string, KnownName>();
  readonly #rows = new Map<string, Rows>();
  #forgotAtMs = 0;

  constructor(options: {
    readonly database: Pick<Database, 'query'>;
    readonly inFlight: InFlightCount;
  }) {
    this.#database = options.database;
    this.#inFlight = options.inFlight;
  }

  /**
   * Finds the table of a name in the catalogue. No statement on the table itself is sent.
   *
   * @throws OutsideDownError if there is none, it lacks a column, or the database cannot be used.
   */
  find(name: TableName): Promise<Table> {
    const known = this.#knownName(name);
    if (known.table === undefined || performance.now() >= known.untilMs) {
      known.untilMs = performance.now() + knownForMs;
      const table = known.circuit.call(() => this.#queryCatalogue(name));
      known.table = table;
      table.catch(() => {
        // The next call meets the circuit.
        if (known.table === table) known.table = undefined;
      });
    }
    return known.table;
  }

  /** The rows of a table. */
  rowsOf(table: Table): Rows {
    const text = tableText(table);
    const options = { database: this.#database, inFlight: this.#inFlight };
    const rows = this.#rows.get(text) ?? new Rows(table, options);
    this.#rows.set(text, rows);
    return rows;
  }

  #knownName(name: TableName): KnownName {
    const key = tableText(name);
    const nowMs = performance.now();
    this.#forget(nowMs);
    const known = this.#known.get(key) ?? {
      circuit: tableCircuit(key),
      table: undefined,
      untilMs: 0,
      askedAtMs: 0,
    };
    known.askedAtMs = nowMs;
    this.#known.set(key, known);
    return known;
  }

  /** Forgets names that nobody uses. A name that is waited for is used more often, so no pause of a circuit is lost. */
  #forget(nowMs: number): void {
    if (nowMs - this.#forgotAtMs < rememberedForMs) return;
    this.#forgotAtMs = nowMs;
    for (const [key, { askedAtMs }] of this.#known) {
      if (nowMs - askedAtMs >= rememberedForMs) this.#known.delete(key);
    }
  }

  async #queryCatalogue(name: TableName): Promise<Table> {
    const [found] = await this.#database.query<FoundTable>(findTable(name));
    if (found === undefined) throw new UnfitTableError('TableMissing', 'the database has no such table');
    const missing = rowColumns.filter((column) => !found.columns.includes(column));
    if (missing.length > 0) {
      throw new UnfitTableError('ColumnMissing', `the table has no column ${missing.join(', ')}`);
    }
    return { schema: found.schema, name: found.name };
  }
}

/** What an upsert did to a row: nothing; written as asked; or written, and altered by a trigger or a column type. */
export type Written = 'unchanged' | 'written' | 'altered';

/** Rows per statement at the most: enough to share its cost, and few enough to be bisected. */
const maxRows = 100;

/** How long a row may wait for others that are on the way, in milliseconds. */
const maxWaitMs = 3000;

/** The pauses between two probes of a table that cannot be used, until a person or the end of a lock changes that. */
const probes = { probeAfterMs: 1000, maxProbeAfterMs: 15_000 } as const;

/** The circuit of a table. It logs nothing: users may make up any number of names, and each PostgresWriter has a status. */
const tableCircuit = (name: string): Circuit =>
  new Circuit({ system: `the table ${name}`, reasonOf: tableReasonOf, isAnswer: () => false, ...probes });

/**
 * The rows of one table. Rows that are wanted at about the same time go in one statement. Statements of one sort run one at a time,
 * so that no two of them wait for each other's locks.
 */
export class Rows {
  readonly #table: Table;
  readonly #database: Pick<Database, 'query'>;
  readonly #upserts: Batch<Row, Written>;
  readonly #checks: Batch<Row, boolean>;
  readonly #deletions: Batch<string, 'deleted'>;

  constructor(table: Table, options: { readonly database: Pick<Database, 'query'>; readonly inFlight: InFlightCount }) {
    const { database, inFlight } = options;
    this.#table = table;
    this.#database = database;
    const circuit = tableCircuit(tableText(table));
    const shared = { maxItems: maxRows, gather: { inFlight, maxWaitMs } };
    this.#upserts = new Batch({
      ...shared,
      execute: (rows) =>
        circuit.call(() => executeBisecting(rows, (some, lockTimeoutMs) => this.#upsert(some, lockTimeoutMs))),
    });
    this.#checks = new Batch({ ...shared, execute: (rows) => circuit.call(() => this.#areThere(rows)) });
    this.#deletions = new Batch({
      ...shared,
      execute: (ids) =>
        circuit.call(() => executeBisecting(ids, (some, lockTimeoutMs) => this.#delete(some, lockTimeoutMs))),
    });
  }

  /**
   * Inserts or updates the row, unless it is there as asked.
   *
   * @param isKnown whether it was there before. Otherwise a row that was not written is checked: a trigger may have skipped it.
   * @throws OutsideDownError if the table or the database cannot be used; RowRefusedError if the database refuses this row;
   *   RowBusyError if it is locked, or took too long.
   */
  async upsert(row: Row, isKnown = false): Promise<Written> {
    const written = await this.#upserts.add(row);
    if (written !== 'unchanged' || isKnown || (await this.#checks.add(row))) return written;
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

/**
 * Executes one statement about some rows. Returns one result for each, in their order. Without rows it changes nothing, and fails if
 * the table cannot be used at all.
 *
 * @param lockTimeoutMs how long to wait for the lock of a row. Default: as long as for that of a table.
 */
type Work<Item, Result> = (items: readonly Item[], lockTimeoutMs?: number) => Promise<readonly (Result | Error)[]>;

/** How long a bisection waits for the lock of a row, in milliseconds: the other rows of the table wait meanwhile. */
const quickLockTimeoutMs = 100;

/** How long a bisection may take, in milliseconds. */
const maxSearchMs = 10_000;

/**
 * Executes the work for all rows at once. If a row is refused or locked, finds it by bisection and executes the rest.
 *
 * @throws what the work throws without rows: then the table, or the database, cannot be used.
 */
async function executeBisecting<Item, Result>(
  items: readonly Item[],
  work: Work<Item, Result>,
): Promise<readonly (Result | Error)[]> {
  try {
    return await work(items);
  } catch (error) {
    const fault = faultOf(error);
    await work([]);
    return bisect(items, fault, work, performance.now() + maxSearchMs);
  }
}

async function bisect<Item, Result>(
  items: readonly Item[],
  fault: Error,
  work: Work<Item, Result>,
  untilMs: number,
): Promise<readonly (Result | Error)[]> {
  if (items.length === 1) return [rowError(fault)];
  if (performance.now() >= untilMs) {
    return items.map(() => new RowBusyError(`others before it took too long: ${fault.message}`, { cause: fault }));
  }
  const middle = items.length >> 1;
  const results: (Result | Error)[] = [];
  for (const half of [items.slice(0, middle), items.slice(middle)]) {
    const outcome = await work(half, quickLockTimeoutMs).catch(faultOf);
    results.push(...(outcome instanceof Error ? await bisect(half, outcome, work, untilMs) : outcome));
  }
  return results;
}

/** The error, if a row of the statement may be its cause; else throws it. */
function faultOf(error: unknown): Error {
  if (error instanceof Error && tableReasonOf(error) !== undefined) return error;
  throw error;
}

/** Quotes the message alone: the detail of the error quotes the row. */
const rowError = (fault: Error): Error =>
  isBusy(fault)
    ? new RowBusyError(`somebody else has the row locked, or it takes too long: ${fault.message}`, { cause: fault })
    : new RowRefusedError(`the database refuses the row: ${fault.message}`, { cause: fault });
