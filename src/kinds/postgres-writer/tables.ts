import { Batch, type InFlightCount } from '../../external/batch.ts';
import { Circuit } from '../../external/circuit.ts';
import type { Database } from './database.ts';
import { isBusy, RowBusyError, RowRefusedError, tableReasonOf, UnfitTableError } from './errors.ts';
import {
  columnsToDelete,
  deleteRows,
  type FoundTable,
  findDifferent,
  findTable,
  type Row,
  rowColumns,
  type Statement,
  type Table,
  type TableName,
  tableText,
  type UpsertedRow,
  upsert,
} from './statements.ts';

/** How long a name's table is cached, in milliseconds. After that the catalogue is queried again. */
const knownForMs = 30_000;

/**
 * How long the circuit of a name is kept after its last use, in milliseconds: longer than the longest pause of a circuit. It must
 * end, because users may write any number of names.
 */
const rememberedForMs = 60_000;

interface KnownName {
  readonly circuit: Circuit;
  table: Promise<Table> | undefined;
  untilMs: number;
  usedAtMs: number;
}

/** What a table is needed for. A deletion needs only the column `id`, and fewer privileges. */
type Use = 'write' | 'delete';

/** The tables of the database, by name, and the rows of each. */
export class Tables {
  readonly #database: Pick<Database, 'query'>;
  readonly #inFlight: InFlightCount;
  readonly #isAllowed: (table: Table) => boolean;
  readonly #known = new Map<string, KnownName>();
  readonly #rows = new Map<string, Rows>();
  #forgotAtMs = 0;

  constructor(options: {
    readonly database: Pick<Database, 'query'>;
    readonly inFlight: InFlightCount;
    /** Whether the operator may write to a table. {@link find} does not describe another one. Default: to all. */
    readonly isAllowed?: ((table: Table) => boolean) | undefined;
  }) {
    this.#database = options.database;
    this.#inFlight = options.inFlight;
    this.#isAllowed = options.isAllowed ?? (() => true);
  }

  /**
   * Finds the table of a name in the catalogue, without a statement on the table itself.
   *
   * @throws OutsideDownError if the table does not exist or is not allowed, if it lacks a column or the role lacks a privilege that the
   *   use needs, or if the database cannot be used.
   */
  find(name: TableName, use: Use = 'write'): Promise<Table> {
    const known = this.#knownName(name, use);
    if (known.table === undefined || performance.now() >= known.untilMs) {
      known.untilMs = performance.now() + knownForMs;
      const table = known.circuit.call(() => this.#queryCatalogue(name, use));
      known.table = table;
      table.catch(() => {
        // Let the next call ask the circuit.
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

  #knownName(name: TableName, use: Use): KnownName {
    const text = tableText(name);
    const key = `${use} ${text}`;
    const nowMs = performance.now();
    this.#forget(nowMs);
    const known = this.#known.get(key) ?? {
      circuit: tableCircuit(text),
      table: undefined,
      untilMs: 0,
      usedAtMs: 0,
    };
    known.usedAtMs = nowMs;
    this.#known.set(key, known);
    return known;
  }

  /** Forgets unused names. Callers of an open circuit use a name more often than this, so no open circuit is lost. */
  #forget(nowMs: number): void {
    if (nowMs - this.#forgotAtMs < rememberedForMs) return;
    this.#forgotAtMs = nowMs;
    for (const [key, { usedAtMs }] of this.#known) {
      if (nowMs - usedAtMs >= rememberedForMs) this.#known.delete(key);
    }
  }

  async #queryCatalogue(name: TableName, use: Use): Promise<Table> {
    const [found] = await this.#database.query<FoundTable>(findTable(name));
    if (found === undefined) throw new UnfitTableError('TableMissing', 'the database has no such table');
    const table = { schema: found.schema, name: found.name };
    // Letter case and the search_path may lead to another table than the allowed one.
    if (!this.#isAllowed(table)) {
      throw new UnfitTableError(
        'TableNotAllowed',
        'this name leads to a table that PSQL_TABLES does not permit: write a permitted table with its schema, in its letter case',
      );
    }
    const columns = use === 'write' ? rowColumns : columnsToDelete;
    const missing = columns.filter((column) => !found.columns.includes(column));
    if (missing.length > 0) {
      throw new UnfitTableError('ColumnMissing', `the table has no column ${missing.join(', ')}`);
    }
    // To write also DELETE: a row that cannot be deleted would keep its PostgresWriter, and the namespace, for ever.
    const lacks = lacksFor(use, found);
    if (lacks.length > 0) throw permissionDenied(lacks);
    return table;
  }
}

const lacksFor = (use: Use, { lacks, lacksToDelete }: FoundTable): readonly string[] =>
  use === 'write' ? lacks : lacksToDelete;

/** @param lacks at least one privilege. */
function permissionDenied(lacks: readonly string[], cause?: Error): UnfitTableError {
  const onTable = lacks.filter((privilege) => privilege !== 'USAGE');
  const parts = [
    ...(onTable.length > 0 ? [`${onTable.join(', ')} on the table`] : []),
    ...(lacks.includes('USAGE') ? ['USAGE on its schema'] : []),
  ];
  return new UnfitTableError('PermissionDenied', `the role lacks ${parts.join(' and ')}`, { cause });
}

/** The effect of an upsert on a row. `altered`: written, but a trigger or the type of a column has changed it. */
export type Written = 'unchanged' | 'written' | 'altered';

/** The most rows per statement: enough to share its cost, and few enough to bisect. */
const maxRows = 100;

/**
 * How long a row may wait for others in flight, in milliseconds: enough to fill a statement under load, and no longer, because one slow
 * request to the API server holds up the rows of a table for this time. Without the wait, 3,000 rows took 988 statements instead of 35.
 */
const maxWaitMs = 500;

/** The pauses between two probes of a table that cannot be used. Usually a person must act, or a lock must end. */
const probes = { probeAfterMs: 1000, maxProbeAfterMs: 15_000 } as const;

/** The circuit of a table. It logs nothing: users may write any number of names, and the status reports the reason. */
const tableCircuit = (name: string): Circuit =>
  new Circuit({ system: `the table ${name}`, reasonOf: tableReasonOf, isAnswer: () => false, ...probes });

/**
 * The rows of one table. Groups rows that are requested at about the same time into one statement. Statements of one type run one at
 * a time, so that no two of them wait for each other's locks.
 */
export class Rows {
  readonly #table: Table;
  readonly #database: Pick<Database, 'query'>;
  readonly #upserts: Batch<Row, Written | 'skipped'>;
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
    this.#checks = new Batch({ ...shared, execute: (rows) => circuit.call(() => this.#arePresent(rows)) });
    this.#deletions = new Batch({
      ...shared,
      execute: (ids) =>
        circuit.call(() => executeBisecting(ids, (some, lockTimeoutMs) => this.#delete(some, lockTimeoutMs))),
    });
  }

  /**
   * Inserts or updates the row, unless it already has these values.
   *
   * @throws OutsideDownError if the table or the database cannot be used; RowRefusedError if the database refuses this row;
   *   RowBusyError if it is locked or took too long.
   */
  async upsert(row: Row): Promise<Written> {
    const written = await this.#upserts.add(row);
    if (written !== 'skipped') return written;
    // A trigger that skips a row may have written it to a table that inherits from this one.
    if (await this.#checks.add(row)) return 'unchanged';
    throw new RowRefusedError('the row was not written: a trigger skips it');
  }

  /**
   * Deletes the row, if it exists.
   *
   * @throws the errors of {@link upsert}.
   */
  async delete(id: string): Promise<void> {
    await this.#deletions.add(id);
  }

  async #upsert(rows: readonly Row[], lockTimeoutMs?: number): Promise<readonly (Written | 'skipped')[]> {
    const different = await this.#query<UpsertedRow>(upsert(this.#table, rows, lockTimeoutMs), 'write');
    const byId = new Map(different.map((row) => [row.id, row]));
    return rows.map((row) => {
      const found = byId.get(row.id);
      if (found === undefined) return 'unchanged';
      if (!found.written) return 'skipped';
      return rowColumns.every((column) => found[column] === row[column]) ? 'written' : 'altered';
    });
  }

  async #arePresent(rows: readonly Row[]): Promise<readonly boolean[]> {
    const different = await this.#query<Pick<Row, 'id'>>(findDifferent(this.#table, rows), 'write');
    const ids = new Set(different.map(({ id }) => id));
    return rows.map(({ id }) => !ids.has(id));
  }

  async #delete(ids: readonly string[], lockTimeoutMs?: number): Promise<readonly 'deleted'[]> {
    await this.#query(deleteRows(this.#table, ids, lockTimeoutMs), 'delete');
    return ids.map(() => 'deleted');
  }

  /**
   * The error "no such table" may be about another table, which a trigger uses, and "permission denied" does not name the permission. Only
   * the catalogue tells.
   */
  async #query<R extends object>(statement: Statement, use: Use): Promise<readonly R[]> {
    try {
      return await this.#database.query<R>(statement);
    } catch (error) {
      const reason = tableReasonOf(error);
      if (!(error instanceof Error) || (reason !== 'TableMissing' && reason !== 'PermissionDenied')) throw error;
      const [found] = await this.#database.query<FoundTable>(findTable(this.#table));
      const { schema, name } = this.#table;
      if (found?.schema !== schema || found.name !== name) throw error;
      if (reason === 'TableMissing') throw new UnfitTableError('TableUnsuitable', error.message, { cause: error });
      // Otherwise a policy refuses the row, or a trigger lacks the permission.
      const lacks = lacksFor(use, found);
      throw lacks.length > 0 ? permissionDenied(lacks, error) : error;
    }
  }
}

/**
 * Executes one statement for some rows. Returns one result per row, in the same order. Without rows it changes nothing, but fails if
 * the table cannot be used.
 *
 * @param lockTimeoutMs how long to wait for the lock of a row. Default: the time-out for the lock of a table.
 */
type Work<Item, Result> = (items: readonly Item[], lockTimeoutMs?: number) => Promise<readonly (Result | Error)[]>;

/** How long a bisection waits for the lock of a row, in milliseconds. The other rows of the table wait meanwhile. */
const quickLockTimeoutMs = 100;

/** How long a bisection may take, in milliseconds. */
const maxSearchMs = 10_000;

/**
 * Executes the work for all rows together. If a row is refused or locked, finds it by bisection and executes the rest.
 *
 * @throws any error of the work without rows: then the table or the database cannot be used.
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
    return items.map(() => new RowBusyError(`rows before it took too long: ${fault.message}`, { cause: fault }));
  }
  const middle = items.length >> 1;
  const results: (Result | Error)[] = [];
  for (const half of [items.slice(0, middle), items.slice(middle)]) {
    const outcome = await work(half, quickLockTimeoutMs).catch(faultOf);
    results.push(...(outcome instanceof Error ? await bisect(half, outcome, work, untilMs) : outcome));
  }
  return results;
}

/** Returns the error if a row of the statement may be its cause. Otherwise throws it. */
function faultOf(error: unknown): Error {
  if (error instanceof Error && tableReasonOf(error) !== undefined) return error;
  throw error;
}

/** Quotes only the message, because the detail of the error contains the row. */
const rowError = (fault: Error): Error =>
  isBusy(fault)
    ? new RowBusyError(`the row is locked, or takes too long: ${fault.message}`, { cause: fault })
    : new RowRefusedError(`the database refuses the row: ${fault.message}`, { cause: fault });
