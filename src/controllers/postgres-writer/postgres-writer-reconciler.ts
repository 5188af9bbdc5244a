import { limits, PostgresWriter, postgresWriterFinalizer } from '../../api/index.ts';
import {
  type CleanedUp,
  currentReady,
  missingField,
  patchStatusIfPresent,
  specProblem,
} from '../../runtime/controller/index.ts';
import {
  cleanedUp,
  defineReasons,
  done,
  type EventRecorder,
  finalizer,
  findCondition,
  keyString,
  type ObjectKey,
  type Outcome,
  OutcomeReporter,
  type ReadonlyStore,
  type ReasonOf,
  type ReconcileContext,
  type Result,
} from '../../runtime/index.ts';
import { type InFlightCount, OutsideDownError, untilAborted } from '../outside/index.ts';
import { refusedOutcome } from '../refusal.ts';
import {
  type DatabaseReason,
  InvalidSpecError,
  RowBusyError,
  RowRefusedError,
  TableNotAllowedError,
} from './errors.ts';
import { InvalidTableNameError, parseTableName, rowIdOf, rowOf, type Table, tableText } from './statements.ts';
import type { Tables, Written } from './tables.ts';

/** The reasons of `Ready` of a PostgresWriter. */
export const postgresWriterReasons = defineReasons({
  RowWritten: {
    ready: 'True',
    event: 'Normal',
    meaning: 'The row is in its table with the values of the spec, and in no other table.',
  },
  RowAltered: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The row is in its table and in no other table, but a trigger or the type of a column has changed it.',
  },
  RowRefused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The database refuses this row, for example because of a constraint, a policy, a trigger or a text that is too long. The message quotes it.',
  },
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning:
      'A required field is missing, or a field is too long: the PostgresWriter was stored under an older CustomResourceDefinition.',
  },
  InvalidTable: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning: '`table` is not the name of a table.',
  },
  Refused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The API server refuses to change the PostgresWriter, usually its finalizer. The message quotes it. The operator retries at least once a minute.',
  },
  TableNotAllowed: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The operator may not write to the table.',
  },
  TableMissing: { ready: 'False', event: 'Warning', meaning: 'The database has no such table, or no such schema.' },
  ColumnMissing: { ready: 'False', event: 'Warning', meaning: 'The table lacks a column. The message names it.' },
  TableUnsuitable: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The table cannot contain such rows, for example because `id` is not unique or a column has another type.',
  },
  PermissionDenied: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The role lacks a permission on the table.',
  },
  TableBusy: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The table or the row is locked, or a statement took too long.',
  },
  DatabaseDown: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The database cannot be reached, or cannot execute statements.',
  },
  DatabaseMissing: { ready: 'False', event: 'Warning', meaning: 'The server has no database of this name.' },
  AccessDenied: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The server refuses the role, usually because of a wrong password.',
  },
  CredentialsMissing: { ready: 'False', event: 'Warning', meaning: 'The files with the credentials do not exist.' },
  TlsRefused: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The server or the operator refuses TLS, or the certificate is not trusted.',
  },
});

type Reason = ReasonOf<typeof postgresWriterReasons>;
type WriterOutcome = Outcome<Reason, PostgresWriter>;

/** Options of {@link PostgresWriterReconciler}. */
export interface PostgresWriterReconcilerOptions {
  readonly writers: ReadonlyStore<PostgresWriter>;
  readonly tables: Tables;
  readonly inFlight: InFlightCount;
  readonly events: EventRecorder;
  /** The tables that may be written to, with their schemas. Default: all. */
  readonly allowedTables?: ReadonlySet<string> | undefined;
  /**
   * How long a row that was checked is not checked again, in milliseconds. Each status write enqueues its key once more, and that
   * reconcile need not read the row.
   */
  readonly freshMs: number;
  /** How long a deletion or a move waits for a missing table to come back, in milliseconds. */
  readonly missingMs: number;
}

/** When to retry a deletion that needs the help of a person, in milliseconds. */
const stuckRetryMs = 60_000;

/** When to retry a row that is locked, in milliseconds; with up to 100 % jitter. */
const busyRetryMs = 5000;

/** When the row of a PostgresWriter could first not be deleted from a missing table, by table. */
interface MissingTables {
  readonly uid: string;
  readonly sinceMs: Map<string, number>;
}

/** The last time that the row was read or written with the values of the spec. */
interface LastCheck {
  readonly uid: string;
  readonly generation: number;
  readonly atMs: number;
}

/**
 * Keeps one row for each PostgresWriter, in the table of its spec and in no other.
 *
 * Before the first statement on a table, the operator adds the table to the status. So after a crash the next reconcile knows every
 * table that may contain the row. It first writes the row to the table of the spec, and then deletes it from the others. After that it
 * checks the row once more, because two tables may share their rows, as a view does.
 */
export class PostgresWriterReconciler {
  readonly #options: PostgresWriterReconcilerOptions;
  readonly #reporter: OutcomeReporter<PostgresWriter, Reason>;
  readonly #lastChecks = new Map<string, LastCheck>();
  /** By `keyString` of the PostgresWriter. After a restart the waits begin again. */
  readonly #missingTables = new Map<string, MissingTables>();

  constructor(options: PostgresWriterReconcilerOptions) {
    this.#options = options;
    const { events } = options;
    this.#reporter = new OutcomeReporter({
      kind: PostgresWriter,
      reasons: postgresWriterReasons,
      events,
      refused: (_, refusal) => refusedOutcome(refusal),
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const writer = this.#options.writers.get(key);
    if (writer === undefined) {
      this.#lastChecks.delete(keyString(key));
      this.#missingTables.delete(keyString(key));
      return done;
    }
    const work = () =>
      finalizer({
        client: context.client,
        kind: PostgresWriter,
        object: writer,
        name: postgresWriterFinalizer,
        apply: (guarded) => this.#apply(guarded, context),
        cleanup: (deleted) => this.#cleanUp(deleted, context),
      });
    return this.#reporter.reconcile(writer, context, async () =>
      this.#isFresh(writer) ? done : this.#options.inFlight.during(work),
    );
  }

  async #apply(writer: PostgresWriter, context: ReconcileContext): Promise<Result> {
    const { signal } = context;
    let current = writer;
    try {
      const problem = specProblem(PostgresWriter, writer);
      if (problem !== undefined) throw new InvalidSpecError(problem);
      const table = await this.#findTable(writer);
      const updated = await this.#addToStatus(writer, table, context);
      if (updated === undefined) return done;
      current = updated;
      const text = tableText(table);
      let written = await this.#upsert(current, table, signal);
      const others = (current.status?.tables ?? []).filter((other) => other !== text);
      const failures = await this.#deleteFrom(current, others, signal);
      if (failures.length < others.length) written = await this.#upsert(current, table, signal);
      if (failures[0] !== undefined) {
        const remaining = failures.map((failure) => failure.table);
        const progress = `the row is in ${text}; waiting to delete it from ${remaining.join(' and ')}: `;
        return this.#reportFailure(current, failures[0].error, context, [...remaining, text], progress);
      }
      this.#missingTables.delete(rowIdOf(writer));
      const outcome = writtenOutcome(written, text);
      const event = eventOf(writer, { text, others, written, reason: outcome.reason });
      const result = await this.#report(current, { ...outcome, event }, context, [text]);
      this.#recordCheck(writer);
      return result;
    } catch (error) {
      return this.#reportFailure(current, error, context, current.status?.tables ?? []);
    }
  }

  /**
   * Adds the table to the status. Undefined if the PostgresWriter is gone.
   *
   * @throws if the status has {@link limits.tables} others, the error of the first from which the row cannot be deleted.
   */
  async #addToStatus(
    writer: PostgresWriter,
    table: Table,
    { client, signal }: ReconcileContext,
  ): Promise<PostgresWriter | undefined> {
    let { tables = [] } = writer.status ?? {};
    const text = tableText(table);
    if (tables.includes(text)) return writer;
    if (tables.length >= limits.tables) {
      const failures = await this.#deleteFrom(writer, tables, signal);
      tables = failures.map((failure) => failure.table);
      if (failures[0] !== undefined && tables.length >= limits.tables) throw failures[0].error;
    }
    return patchStatusIfPresent(client, PostgresWriter, writer, { tables: [...tables, text] });
  }

  #upsert(writer: PostgresWriter, table: Table, signal: AbortSignal): Promise<Written> {
    const { inFlight, tables } = this.#options;
    // On abort, stop waiting but let the statement run: it contains other rows too.
    return untilAborted(
      inFlight.waiting(() => tables.rowsOf(table).upsert(rowOf(writer))),
      signal,
    );
  }

  /** Deletes the row from each of the tables. A failure does not keep the row in the tables after it. */
  async #deleteFrom(
    writer: PostgresWriter,
    tables: readonly string[],
    signal: AbortSignal,
  ): Promise<readonly { readonly table: string; readonly error: unknown }[]> {
    const failures: { readonly table: string; readonly error: unknown }[] = [];
    for (const table of tables) {
      try {
        await this.#delete(writer, table, signal);
      } catch (error) {
        signal.throwIfAborted();
        failures.push({ table, error });
      }
    }
    return failures;
  }

  /**
   * Deletes the row from a table. A table that has been missing for `missingMs` since this PostgresWriter left it counts as gone with
   * its rows. Before that it may come back, because it is renamed or restored from a backup.
   */
  async #delete(writer: PostgresWriter, text: string, signal: AbortSignal): Promise<void> {
    const { inFlight, tables, missingMs } = this.#options;
    const table = parseStatusTable(text);
    if (table === undefined) return;
    const rows = tables.rowsOf(this.#allowed(table));
    try {
      await untilAborted(
        inFlight.waiting(() => rows.delete(rowIdOf(writer))),
        signal,
      );
    } catch (error) {
      if (!(error instanceof OutsideDownError) || error.reason !== 'TableMissing') throw error;
      const { deletionTimestamp } = writer.metadata;
      const deletedAtMs = deletionTimestamp === undefined ? 0 : Date.parse(deletionTimestamp);
      const missingSinceMs = Math.max(error.since.getTime(), deletedAtMs, this.#missingSinceMs(writer, text));
      // An open circuit refuses without a look, so only a failure after the wait shows that the table has not come back.
      if (error.failedAt.getTime() < missingSinceMs + missingMs) throw error;
    }
  }

  /**
   * When the deletion of the row from this table first failed. The outage of the table may have begun long before: nothing uses a table
   * that its PostgresWriters have left.
   */
  #missingSinceMs(writer: PostgresWriter, table: string): number {
    const key = rowIdOf(writer);
    const { uid } = writer.metadata;
    const known = this.#missingTables.get(key);
    const { sinceMs } = known?.uid === uid ? known : { sinceMs: new Map<string, number>() };
    this.#missingTables.set(key, { uid, sinceMs });
    const firstMs = sinceMs.get(table) ?? Date.now();
    sinceMs.set(table, firstMs);
    return firstMs;
  }

  async #cleanUp(writer: PostgresWriter, context: ReconcileContext): Promise<Result | CleanedUp> {
    let tables = writer.status?.tables;
    let failure: unknown;
    try {
      tables ??= await this.#unrecordedTables(writer);
      const failures = await this.#deleteFrom(writer, tables, context.signal);
      if (failures[0] === undefined) return cleanedUp;
      tables = failures.map(({ table }) => table);
      failure = failures[0].error;
    } catch (error) {
      failure = error;
    }
    const progress = `waiting to delete the row from ${tables?.join(' and ') ?? writer.spec.table}: `;
    return this.#reportFailure(writer, failure, context, tables ?? [], progress);
  }

  /**
   * The tables of a PostgresWriter whose status names none. Its row may have been written by the original operator, or before the
   * cluster was restored from a backup.
   */
  async #unrecordedTables(writer: PostgresWriter): Promise<readonly string[]> {
    try {
      return [tableText(await this.#findTable(writer))];
    } catch (error) {
      const reason = failureOutcome(error)?.reason;
      if (reason !== undefined && reasonsWithoutRow.includes(reason)) return [];
      throw error;
    }
  }

  /** @throws InvalidSpecError, InvalidTableNameError, TableNotAllowedError; the errors of {@link Tables.find}. */
  async #findTable(writer: PostgresWriter): Promise<Table> {
    const missing = missingField(PostgresWriter, writer);
    if (missing !== undefined) throw new InvalidSpecError(`${missing} is missing`);
    return this.#allowed(await this.#options.tables.find(parseTableName(writer.spec.table)));
  }

  /** @throws TableNotAllowedError */
  #allowed(table: Table): Table {
    const { allowedTables } = this.#options;
    if (allowedTables === undefined || allowedTables.has(tableText(table))) return table;
    throw new TableNotAllowedError(`the operator may not write to the table ${tableText(table)} (PSQL_TABLES)`);
  }

  /**
   * Reports why a reconcile failed. A deletion that needs the help of a person is retried too.
   *
   * @throws an unexpected error.
   */
  async #reportFailure(
    writer: PostgresWriter,
    error: unknown,
    context: ReconcileContext,
    tables: readonly string[],
    progress = '',
  ): Promise<Result> {
    const failure = failureOutcome(error);
    if (failure === undefined) throw error;
    const retryAfterMs = writer.metadata.deletionTimestamp === undefined ? undefined : stuckRetryMs;
    const { requeueAfterMs = retryAfterMs } = failure;
    return this.#report(
      writer,
      { ...failure, message: `${progress}${failure.message}`, requeueAfterMs },
      context,
      tables,
    );
  }

  /** @param tables the tables that may contain the row. */
  #report(
    writer: PostgresWriter,
    outcome: WriterOutcome,
    context: ReconcileContext,
    tables: readonly string[],
  ): Promise<Result> {
    // More may have been stored under an older CustomResourceDefinition. The API server takes no such list, except the stored one.
    const status = tables.length > limits.tables ? {} : { tables: tables.length === 0 ? null : [...tables] };
    return this.#reporter.report(writer, { ...outcome, status }, context);
  }

  #recordCheck(writer: PostgresWriter): void {
    const { uid, generation } = writer.metadata;
    this.#lastChecks.set(rowIdOf(writer), { uid, generation, atMs: performance.now() });
  }

  #isFresh(writer: PostgresWriter): boolean {
    const { uid, generation, deletionTimestamp, finalizers } = writer.metadata;
    const last = this.#lastChecks.get(rowIdOf(writer));
    if (last === undefined || last.uid !== uid || last.generation !== generation) return false;
    if (performance.now() - last.atMs >= this.#options.freshMs) return false;
    const isGuarded = finalizers?.includes(postgresWriterFinalizer) ?? false;
    return isGuarded && deletionTimestamp === undefined && isSettled(writer);
  }
}

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
    readonly reason: Reason;
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

/** The outcome of a failed reconcile. Undefined for an unexpected error. */
export function failureOutcome(error: unknown, random: () => number = Math.random): WriterOutcome | undefined {
  if (!(error instanceof Error)) return undefined;
  const { message } = error;
  if (error instanceof OutsideDownError && isReason(error.reason)) {
    return { reason: error.reason, message, requeueAfterMs: error.retryAfterMs };
  }
  if (error instanceof InvalidSpecError) return { reason: 'InvalidSpec', message };
  if (error instanceof InvalidTableNameError) return { reason: 'InvalidTable', message };
  if (error instanceof TableNotAllowedError) return { reason: 'TableNotAllowed', message };
  if (error instanceof RowRefusedError) return { reason: 'RowRefused', message };
  if (error instanceof RowBusyError) {
    return { reason: 'TableBusy', message, requeueAfterMs: busyRetryMs * (1 + random()) };
  }
  return undefined;
}

const isReason = (reason: string): reason is Reason => Object.hasOwn(postgresWriterReasons, reason);

/** With these reasons, a table that the status does not name cannot contain the row. */
const reasonsWithoutRow: readonly Reason[] = [
  'InvalidSpec',
  'InvalidTable',
  'TableNotAllowed',
  'TableMissing',
  'ColumnMissing',
];

/** Whether the row is in its table and in no other, according to the status. */
const isSettled = (writer: PostgresWriter): boolean =>
  ['RowWritten', 'RowAltered'].includes(currentReady(writer)?.reason ?? '') && writer.status?.tables?.length === 1;

/** The reasons of a PostgresWriter that waits until the database can be used. */
const waitingReasons: ReadonlySet<string | undefined> = new Set<DatabaseReason>([
  'DatabaseDown',
  'DatabaseMissing',
  'AccessDenied',
  'CredentialsMissing',
  'TlsRefused',
]);

/** Whether a PostgresWriter reports that it waits until the database can be used. Its reconciles call the database. */
export function hasWaitingWriter(writers: Pick<ReadonlyStore<PostgresWriter>, 'list'>): boolean {
  for (const { status } of writers.list()) {
    if (waitingReasons.has(findCondition(status?.conditions, 'Ready')?.reason)) return true;
  }
  return false;
}

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
