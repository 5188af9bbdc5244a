/** PostgresWriter: a row in a table of a PostgreSQL database. */

import { cleanedUp, defineController, findCondition } from '@echoperator/runtime';
import { currentReady, type EventNotice } from '@echoperator/runtime/controller';
import { externalSystemUp } from '../../external/external-system-up.ts';
import { limits } from '../shared/limits.ts';
import { Database } from './database.ts';
import { PostgresWriter, postgresWriterFinalizer } from './kind.ts';
import { connectionMetrics, statementMetrics } from './metrics.ts';
import type { DatabaseSettings } from './pool.ts';
import { failureOutcome, hasWaitingWriter, postgresWriterReasons, type WriterOutcome } from './reasons.ts';
import { isAllowedTable, recordedTables, type WriterMemory, WriterRow, type WriterState } from './row.ts';
import { parseTableName, type Table, tableText } from './statements.ts';
import { Tables, type Written } from './tables.ts';

/** The minimum of workers. Up to this number, workers that wait for a slow table leave others for the other tables. */
const minWorkers = 200;

/** The most that `freshMs` can be: by then a status write has enqueued its key. */
const maxFreshMs = 30_000;

/** The most that `missingMs` can be: enough to restore or rename a table in most cases. */
const maxMissingMs = 300_000;

/** When to retry a deletion that needs the help of a person, in milliseconds. */
const stuckRetryMs = 60_000;

/** Options of {@link postgresWriterController}. */
export interface PostgresWriterOptions {
  readonly settings: DatabaseSettings;
  /** The tables that may be written to, with their schemas. Default: all. */
  readonly allowedTables?: readonly string[] | undefined;
  /** How many objects are reconciled concurrently, at least. */
  readonly workers: number;
  /** Each resync checks every row and restores what others have changed or deleted. */
  readonly resyncEveryMs: number;
}

/**
 * Keeps one row for each PostgresWriter, in the table of its spec and in no other.
 *
 * Before the first statement on a table, the operator adds the table to the status. So after a crash the next reconcile
 * knows every table that may contain the row. It first writes the row to the table of the spec, and then deletes it
 * from the others. After that it checks the row once more, because two tables may share their rows, as a view does.
 */
export function postgresWriterController(options: PostgresWriterOptions) {
  const { settings, workers, resyncEveryMs } = options;
  // Each status write enqueues its key once more, and that reconcile need not read the row.
  const freshMs = Math.min(maxFreshMs, resyncEveryMs / 4);
  const shared = {
    allowedTables: options.allowedTables?.flatMap((text) => {
      const { schema, name } = parseTableName(text);
      return schema === undefined ? [] : [{ schema, name }];
    }),
    missingMs: Math.min(maxMissingMs, resyncEveryMs),
  };
  return defineController(PostgresWriter, {
    reasons: postgresWriterReasons,
    workers: Math.max(workers, minWorkers),
    resyncEveryMs,
    memory: (): WriterMemory => ({ missingSinceMs: new Map() }),
    setUp: ({ store, log, registry, gate }): WriterState & AsyncDisposable => {
      const database = new Database({ settings, log, gate });
      externalSystemUp(registry, 'postgres', {
        isDown: () => database.isDown,
        isAwaited: () => hasWaitingWriter(store),
      });
      const isAllowed = (table: Table): boolean => isAllowedTable(table, shared.allowedTables);
      // A table whose rows are locked or slow leaves connections to the others.
      const maxStatements = Math.ceil(settings.poolSize / 2);
      const tables = new Tables({ database: statementMetrics(registry, database), maxStatements, isAllowed });
      connectionMetrics(registry, { database, tables, poolSize: settings.poolSize });
      return { tables, [Symbol.asyncDispose]: () => database.close() };
    },
    reconcile: async (writer, { state, memory, signal, writeStatus, report }) => {
      if (isFresh(writer, memory, freshMs)) return;
      const row = new WriterRow({ ...shared, writer, state, memory, signal });
      const table = await row.findTable();
      const text = tableText(table);
      const recorded = await recordTable(writer, text, row, writeStatus);
      let written = await row.upsert(table);
      const others = recorded.filter((other) => other !== text);
      const failures = await row.deleteFrom(others);
      if (failures.length < others.length) written = await row.upsert(table);
      if (failures[0] !== undefined) {
        const remaining = failures.map((failure) => failure.table);
        const progress = `the row is in ${text}; waiting to delete it from ${remaining.join(' and ')}: `;
        await report(outcomeOfFailure(failures[0].error, [...remaining, text], progress));
        return;
      }
      memory.missingSinceMs.clear();
      const outcome = writtenOutcome(written, text);
      const event = eventOf(writer, { text, others, written, reason: outcome.reason });
      await report({ ...outcome, status: statusOf([text]), event });
      memory.lastCheck = { generation: writer.metadata.generation, atMs: performance.now() };
    },
    failed: (error) => failureOutcome(error),
    finalizer: {
      name: postgresWriterFinalizer,
      cleanUp: async (writer, { state, memory, signal, event }) => {
        const row = new WriterRow({ ...shared, writer, state, memory, signal });
        let tables = recordedTables(writer);
        let failure: unknown;
        try {
          tables ??= await unrecordedTables(row, event);
          const failures = await row.deleteFrom(tables);
          if (failures[0] === undefined) return cleanedUp;
          tables = failures.map(({ table }) => table);
          failure = failures[0].error;
        } catch (error) {
          failure = error;
        }
        const progress = `waiting to delete the row from ${tables?.join(' and ') ?? writer.spec.table}: `;
        // It may need the help of a person.
        return { requeueAfterMs: stuckRetryMs, ...outcomeOfFailure(failure, tables ?? [], progress) };
      },
    },
  });
}

/**
 * The tables of a PostgresWriter whose status names none. None if the role lacks a privilege that a deletion needs:
 * then this operator has written no row, and cannot look for one of another.
 */
async function unrecordedTables(
  row: WriterRow,
  event: (notice: Omit<EventNotice, 'action'>) => void,
): Promise<readonly string[]> {
  try {
    return await row.unrecordedTables();
  } catch (error) {
    const { reason, message = '' } = failureOutcome(error) ?? {};
    if (reason !== 'PermissionDenied') throw error;
    const note = `deleted no row: this operator has recorded no table that may contain one, and ${message}`;
    event({ type: 'Warning', reason: 'RowNotSought', note });
    return [];
  }
}

/** Adds the table to the status. Returns all tables that it names then. */
async function recordTable(
  writer: PostgresWriter,
  text: string,
  row: WriterRow,
  writeStatus: (status: { readonly tables: string[] }) => Promise<PostgresWriter>,
): Promise<readonly string[]> {
  const tables = recordedTables(writer) ?? [];
  if (tables.includes(text)) return tables;
  const written = await writeStatus({ tables: [...(await row.tablesWithRoom()), text] });
  return recordedTables(written) ?? [];
}

/**
 * The outcome while the row is in some tables, or may be.
 *
 * @throws an unexpected error.
 */
function outcomeOfFailure(error: unknown, tables: readonly string[], progress: string): WriterOutcome {
  const failure = failureOutcome(error);
  if (failure === undefined) throw error;
  return { ...failure, message: `${progress}${failure.message}`, status: statusOf(tables) };
}

/** @param tables that may contain the row. */
function statusOf(tables: readonly string[]) {
  // More may have been stored under an older CustomResourceDefinition. The API server takes no such list, except the
  // stored one.
  if (tables.length > limits.tables) return {};
  return { tables: tables.length === 0 ? null : [...tables] };
}

/** Whether the row was checked a moment ago. */
function isFresh(writer: PostgresWriter, { lastCheck }: WriterMemory, freshMs: number): boolean {
  if (lastCheck === undefined || lastCheck.generation !== writer.metadata.generation) return false;
  return performance.now() - lastCheck.atMs < freshMs && isSettled(writer);
}

/** Whether the row is in its table and in no other, according to the status. */
const isSettled = (writer: PostgresWriter): boolean =>
  ['RowWritten', 'RowAltered'].includes(currentReady(writer)?.reason ?? '') && recordedTables(writer)?.length === 1;

const writtenOutcome = (written: Written, table: string): WriterOutcome =>
  written === 'altered'
    ? {
        reason: 'RowAltered',
        message: `the row is in ${table}, but a trigger or the type of a column has changed it`,
      }
    : { reason: 'RowWritten', message: `the row is in ${table}` };

/** The Event for a write that does not change the reason of `Ready`. Undefined if there is nothing to report. */
function eventOf(
  { metadata, status }: PostgresWriter,
  done: {
    readonly text: string;
    readonly others: readonly string[];
    readonly written: Written;
    readonly reason: WriterOutcome['reason'];
  },
) {
  const { text, others, written, reason } = done;
  if (others.length > 0) {
    const note = `moved the row from ${others.join(' and ')} to ${text}`;
    return { type: 'Normal', reason: 'RowMoved', note } as const;
  }
  const before = findCondition(status?.conditions, 'Ready');
  if (before?.reason !== reason || written === 'unchanged') return undefined;
  if (before.observedGeneration !== metadata.generation) {
    return { type: 'Normal', reason: 'RowUpdated', note: `updated the row in ${text}` } as const;
  }
  // The table alters the row at each resync, so nobody else has changed it.
  if (written === 'altered') return undefined;
  const note = `restored the row in ${text}, which others had changed or deleted`;
  return { type: 'Warning', reason: 'RowRestored', note } as const;
}
