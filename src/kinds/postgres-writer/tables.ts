import { Semaphore } from '@echoperator/runtime/controller';
import { Circuit } from '../../external/circuit.ts';
import { KeyedMutex } from '../../external/concurrency.ts';
import type { Database } from './database.ts';
import { isBusy, RowBusyError, RowRefusedError, tableReasonOf, UnfitTableError } from './errors.ts';
import {
  columnsToDelete,
  deleteRow,
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
 * How long the circuit of a name is kept after its last use, in milliseconds: longer than the longest pause of a
 * circuit. It must end, because users may write any number of names.
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
  readonly #maxStatements: number;
  readonly #isAllowed: (table: Table) => boolean;
  readonly #known = new Map<string, KnownName>();
  readonly #rows = new Map<string, Rows>();
  #forgotAtMs = 0;

  constructor(options: {
    readonly database: Pick<Database, 'query'>;
    /** How many statements on the rows of one table may run at a time. */
    readonly maxStatements: number;
    /** Whether the operator may write to a table. {@link find} does not describe another one. Default: to all. */
    readonly isAllowed?: ((table: Table) => boolean) | undefined;
  }) {
    this.#database = options.database;
    this.#maxStatements = options.maxStatements;
    this.#isAllowed = options.isAllowed ?? (() => true);
  }

  /**
   * Finds the table of a name in the catalogue, without a statement on the table itself.
   *
   * @throws ExternalSystemDownError if the table does not exist or is not allowed, if it lacks a column or the role lacks a
   *   privilege that the use needs, or if the database cannot be used.
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

  /** How many statements on rows wait until fewer run on their table. */
  get waitingStatements(): number {
    let sum = 0;
    for (const rows of this.#rows.values()) sum += rows.waitingStatements;
    return sum;
  }

  /** The rows of a table. */
  rowsOf(table: Table): Rows {
    const text = tableText(table);
    const options = { database: this.#database, maxStatements: this.#maxStatements };
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
    // To write also DELETE: a row that cannot be deleted would keep its PostgresWriter, and the namespace, forever.
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

/** The pauses between two probes of a table that cannot be used. Usually a person must act, or a lock must end. */
const probes = { probeAfterMs: 1000, maxProbeAfterMs: 15_000 } as const;

/** The circuit of a table. It logs nothing: users may write any number of names, and the status reports the reason. */
const tableCircuit = (name: string): Circuit =>
  new Circuit({
    system: `the table ${name}`,
    reasonOf: tableReasonOf,
    // Each comes after a statement that the table has executed.
    isResponse: (error) => error instanceof RowRefusedError || error instanceof RowBusyError,
    ...probes,
  });

/** The rows of one table, each in a statement of its own. */
export class Rows {
  readonly #table: Table;
  readonly #database: Pick<Database, 'query'>;
  readonly #circuit: Circuit;
  readonly #statements: Semaphore;
  /** Orders the statements of a row: one whose reconcile was aborted may still run. */
  readonly #order = new KeyedMutex();

  /** @param options.maxStatements how many statements may run at a time. */
  constructor(
    table: Table,
    { database, maxStatements }: { readonly database: Pick<Database, 'query'>; readonly maxStatements: number },
  ) {
    this.#table = table;
    this.#database = database;
    this.#circuit = tableCircuit(tableText(table));
    this.#statements = new Semaphore(maxStatements);
  }

  get waitingStatements(): number {
    return this.#statements.waiting;
  }

  /**
   * Inserts or updates the row, unless it already has these values.
   *
   * @param signal if it is aborted, no further statement is sent. A statement that was sent runs on.
   * @throws ExternalSystemDownError if the table or the database cannot be used; RowRefusedError if the database refuses this
   *   row; RowBusyError if it is locked or took too long; the signal's reason.
   */
  upsert(row: Row, signal: AbortSignal): Promise<Written> {
    return this.#order.run(row.id, signal, () => this.#upsert(row, signal));
  }

  async #upsert(row: Row, signal: AbortSignal): Promise<Written> {
    const found = await this.#execute<UpsertedRow>((some) => upsert(this.#table, some), row, { use: 'write', signal });
    if (found === undefined) return 'unchanged';
    if (found.written) return rowColumns.every((column) => found[column] === row[column]) ? 'written' : 'altered';
    // A trigger that skips a row may have written it to a table that inherits from this one.
    const different = await this.#execute((some) => findDifferent(this.#table, some), row, { use: 'write', signal });
    if (different === undefined) return 'unchanged';
    throw new RowRefusedError('the row was not written: a trigger skips it');
  }

  /**
   * Deletes the row, if it exists.
   *
   * @throws the errors of {@link upsert}.
   */
  async delete(id: string, signal: AbortSignal): Promise<void> {
    await this.#order.run(id, signal, () =>
      this.#execute((some) => deleteRow(this.#table, some), id, { use: 'delete', signal }),
    );
  }

  /**
   * Executes the statement for an item. If it fails, executes the statement without one, which changes nothing, but
   * fails too if the table or the database cannot be used.
   *
   * @returns the first row of the result.
   */
  #execute<R extends object, Item = Row>(
    statementFor: (item?: Item) => Statement,
    item: Item,
    { use, signal }: { readonly use: Use; readonly signal: AbortSignal },
  ): Promise<R | undefined> {
    // Check the circuit after the wait, so that no statement is sent to a table that has become unusable.
    return this.#statements.use(async () => {
      signal.throwIfAborted();
      return this.#circuit.call(async () => {
        try {
          const [row] = await this.#query<R>(statementFor(item), use);
          return row;
        } catch (error) {
          const fault = faultOf(error);
          await this.#query(statementFor(), use);
          throw rowError(fault);
        }
      });
    });
  }

  /**
   * The error "no such table" may be about another table, which a trigger uses, and "permission denied" does not name
   * the permission. Only the catalogue tells.
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

/** Returns the error if the row of the statement may be its cause. Otherwise throws it. */
function faultOf(error: unknown): Error {
  if (error instanceof Error && tableReasonOf(error) !== undefined) return error;
  throw error;
}

/** Quotes only the message, because the detail of the error contains the row. */
const rowError = (fault: Error): Error =>
  isBusy(fault)
    ? new RowBusyError(`the row is locked, or takes too long: ${fault.message}`, { cause: fault })
    : new RowRefusedError(`the database refuses the row: ${fault.message}`, { cause: fault });
