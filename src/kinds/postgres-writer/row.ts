import { missingField } from '@echoperator/runtime/controller';
import { ExternalSystemDownError } from '../../external/circuit.ts';
import { untilAborted } from '../../external/concurrency.ts';
import { limits } from '../shared/limits.ts';
import { TableNotAllowedError } from './errors.ts';
import { PostgresWriter } from './kind.ts';
import { excludesRow } from './reasons.ts';
import {
  InvalidTableNameError,
  mayName,
  parseTableName,
  rowIdOf,
  rowOf,
  type Table,
  type TableName,
  tableText,
} from './statements.ts';
import type { Tables, Written } from './tables.ts';

/** The tables of the database, as reconciles use them. */
export interface WriterState {
  readonly tables: Pick<Tables, 'find' | 'rowsOf'>;
}

/** What the operator remembers of a PostgresWriter. */
export interface WriterMemory {
  /**
   * When the row was last read or written with the values of the spec of a generation, on the clock of
   * `performance.now`.
   */
  lastCheck?: { readonly generation: number; readonly atMs: number };
  /** When the row could first not be deleted from a missing table, by table, in milliseconds since 1970. */
  readonly missingSinceMs: Map<string, number>;
}

/** Options of {@link WriterRow}. */
export interface WriterRowOptions {
  readonly writer: PostgresWriter;
  readonly state: WriterState;
  readonly memory: WriterMemory;
  readonly signal: AbortSignal;
  /** The tables that may be written to, with their schemas. Default: all. */
  readonly allowedTables?: readonly Table[] | undefined;
  /** How long a deletion or a move waits for a missing table to come back, in milliseconds. */
  readonly missingMs: number;
}

/** A table from which the row could not be deleted. */
export interface TableFailure {
  readonly table: string;
  readonly error: unknown;
}

/**
 * The tables that the status records. Undefined if it records none. What was stored under another
 * CustomResourceDefinition may be anything.
 */
export function recordedTables({ status }: PostgresWriter): readonly string[] | undefined {
  const stored: unknown = status?.tables;
  const tables = Array.isArray(stored) ? stored.filter((each) => typeof each === 'string') : [];
  return tables.length > 0 ? tables : undefined;
}

/** The row of one PostgresWriter, in whichever tables, during one reconcile. */
export class WriterRow {
  readonly #options: WriterRowOptions;

  constructor(options: WriterRowOptions) {
    this.#options = options;
  }

  /**
   * The table of the spec.
   *
   * @param use what for.
   * @throws InvalidTableNameError, TableNotAllowedError; the errors of {@link Tables.find}.
   */
  async findTable(use: 'write' | 'delete' = 'write'): Promise<Table> {
    const { writer, state, allowedTables } = this.#options;
    const name = parseTableName(writer.spec.table);
    // Before the catalogue: its reasons would tell which other tables the database has.
    if (allowedTables !== undefined && !allowedTables.some((allowed) => mayName(name, allowed))) throw notAllowed(name);
    return state.tables.find(name, use);
  }

  upsert(table: Table): Promise<Written> {
    const { writer, state, signal } = this.#options;
    // On abort, stop waiting but let a statement that was sent run: it ends by its own timeout.
    return untilAborted(state.tables.rowsOf(table).upsert(rowOf(writer), signal), signal);
  }

  /** Deletes the row from each of the tables. A failure does not keep the row in the tables after it. */
  async deleteFrom(tables: readonly string[]): Promise<readonly TableFailure[]> {
    const failures: TableFailure[] = [];
    for (const table of tables) {
      try {
        await this.#delete(table);
      } catch (error) {
        this.#options.signal.throwIfAborted();
        failures.push({ table, error });
      }
    }
    return failures;
  }

  /**
   * The tables that the status names. If it can name no more, deletes the row from them first.
   *
   * @throws the error of the first table from which the row cannot be deleted, if there is no room then either.
   */
  async tablesWithRoom(): Promise<readonly string[]> {
    const tables = recordedTables(this.#options.writer) ?? [];
    if (tables.length < limits.tables) return tables;
    const failures = await this.deleteFrom(tables);
    if (failures[0] !== undefined && failures.length >= limits.tables) throw failures[0].error;
    return failures.map(({ table }) => table);
  }

  /**
   * The tables of a PostgresWriter whose status names none. Its row may have been written by the original operator, or
   * before the cluster was restored from a backup.
   */
  async unrecordedTables(): Promise<readonly string[]> {
    if (missingField(PostgresWriter, this.#options.writer) !== undefined) return [];
    try {
      return [tableText(await this.findTable('delete'))];
    } catch (error) {
      if (excludesRow(error)) return [];
      throw error;
    }
  }

  /**
   * Deletes the row from a table. A table that has been missing for `missingMs` since this PostgresWriter left it
   * counts as gone with its rows. Before that it may come back, because it is renamed or restored from a backup.
   */
  async #delete(text: string): Promise<void> {
    const { writer, state, signal, missingMs } = this.#options;
    const table = parseStatusTable(text);
    if (table === undefined) return;
    const rows = state.tables.rowsOf(this.#allowed(table));
    try {
      await untilAborted(rows.delete(rowIdOf(writer), signal), signal);
    } catch (error) {
      if (!(error instanceof ExternalSystemDownError) || error.reason !== 'TableMissing') throw error;
      const { deletionTimestamp } = writer.metadata;
      const deletedAtMs = deletionTimestamp === undefined ? 0 : Date.parse(deletionTimestamp);
      const missingSinceMs = Math.max(error.since.getTime(), deletedAtMs, this.#missingSinceMs(text));
      // An open circuit refuses without a look, so only a failure after the wait shows that the table has not come
      // back.
      if (error.failedAt.getTime() < missingSinceMs + missingMs) throw error;
    }
  }

  /**
   * When the deletion of the row from this table first failed. The outage of the table may have begun long before:
   * nothing uses a table that its PostgresWriters have left.
   */
  #missingSinceMs(table: string): number {
    const { missingSinceMs } = this.#options.memory;
    const firstMs = missingSinceMs.get(table) ?? Date.now();
    missingSinceMs.set(table, firstMs);
    return firstMs;
  }

  /** @throws TableNotAllowedError */
  #allowed(table: Table): Table {
    const { allowedTables } = this.#options;
    if (isAllowedTable(table, allowedTables)) return table;
    throw notAllowed(table);
  }
}

/** @param allowedTables Default: all. */
export function isAllowedTable(table: Table, allowedTables: readonly Table[] | undefined): boolean {
  const text = tableText(table);
  return allowedTables === undefined || allowedTables.some((allowed) => tableText(allowed) === text);
}

const notAllowed = (table: TableName): TableNotAllowedError =>
  new TableNotAllowedError(`the operator may not write to the table ${tableText(table)} (PSQL_TABLES)`);

/** Parses a table of the status. Undefined for a text that the operator cannot have written there. */
function parseStatusTable(text: string): Table | undefined {
  try {
    const { schema, name } = parseTableName(text);
    return schema === undefined ? undefined : { schema, name };
  } catch (error) {
    if (error instanceof InvalidTableNameError) return undefined;
    throw error;
  }
}
