import { PostgresWriter, postgresWriterFinalizer } from '../../api/index.ts';
import { writeStatus } from '../../runtime/controller/index.ts';
import {
  defineReasons,
  done,
  type EventRecorder,
  finalizer,
  findCondition,
  keyString,
  missingField,
  type ObjectKey,
  type Outcome,
  OutcomeReporter,
  type ReadonlyStore,
  type ReasonOf,
  type ReconcileContext,
  type Result,
} from '../../runtime/index.ts';
import { type InFlightCount, OutsideDownError, untilAborted } from '../outside/index.ts';
import { InvalidSpecError, RowBusyError, RowRefusedError, TableNotAllowedError } from './errors.ts';
import { InvalidTableNameError, parseTableName, rowIdOf, rowOf, type Table, tableText } from './statements.ts';
import type { Tables, Written } from './tables.ts';

/** The reasons of `Ready` of a PostgresWriter. */
export const postgresWriterReasons = defineReasons({
  RowWritten: {
    ready: 'True',
    event: 'Normal',
    meaning: 'The row is in its table, as the spec asks, and in no other.',
  },
  RowAltered: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The row is in its table and in no other, but a trigger or the type of a column has changed it.',
  },
  RowRefused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The database refuses this row: a constraint, a policy, a trigger, a text that is too long. The message quotes it.',
  },
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning: 'It was stored under an older definition, with less than a row.',
  },
  InvalidTable: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning: '`table` is no name of a table.',
  },
  TableNotAllowed: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The table is not among those that may be touched.',
  },
  TableMissing: { ready: 'False', event: 'Warning', meaning: 'The database has no such table, or no such schema.' },
  ColumnMissing: { ready: 'False', event: 'Warning', meaning: 'The table lacks a column; the message names it.' },
  TableUnsuitable: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The table cannot hold such rows: `id` is not unique, a column has another type.',
  },
  PermissionDenied: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The role may not do what it has to with the table.',
  },
  TableBusy: {
    ready: 'False',
    event: 'Warning',
    meaning: 'Somebody else holds a lock, of the table or of the row, or a statement took too long.',
  },
  DatabaseDown: { ready: 'False', event: 'Warning', meaning: 'The database cannot be reached, or can take nothing.' },
  DatabaseMissing: { ready: 'False', event: 'Warning', meaning: 'The server has no database of that name.' },
  AccessDenied: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The server does not let the role in: a wrong password, most often.',
  },
  CredentialsMissing: { ready: 'False', event: 'Warning', meaning: 'The files of the Secret are not there.' },
  TlsRefused: {
    ready: 'False',
    event: 'Warning',
    meaning: 'TLS is refused by one of the two sides, or the certificate is not to be trusted.',
  },
});

type Reason = ReasonOf<typeof postgresWriterReasons>;
type WriterOutcome = Outcome<Reason, PostgresWriter>;

/** What the reconciler reads and writes. */
export interface PostgresWriterReconcilerOptions {
  readonly writers: ReadonlyStore<PostgresWriter>;
  readonly tables: Tables;
  readonly inFlight: InFlightCount;
  readonly events: EventRecorder;
  /** The only tables that may be written to, with their schemas. Undefined: every one. */
  readonly allowedTables?: ReadonlySet<string> | undefined;
  /**
   * For how long a row that was looked at needs no other look, in milliseconds. Each write of a status brings its key back
   * once, and that is not what a row is read for.
   */
  readonly freshMs: number;
  /** How long a deletion or a move waits for a missing table to come back, in milliseconds. */
  readonly missingMs: number;
}

/** A deletion that only a person can help is tried again all the same, after so many milliseconds. */
const stuckRetryMs = 60_000;

/** A row that is locked is tried again after so many milliseconds, and up to as many more. */
const busyRetryMs = 5000;

/** The last time that the row was seen as the spec asks. */
interface LastCheck {
  readonly uid: string;
  readonly generation: number;
  readonly atMs: number;
}

/**
 * Keeps one row for each PostgresWriter, in its table and in no other.
 *
 * Before the first statement on a table the status names it, so after a kill the next reconcile knows every table that may hold
 * the row. The row is written to the table of the spec first, and then deleted from the others. After that it is checked once
 * more, because two tables may share their rows: a view does.
 */
export class PostgresWriterReconciler {
  readonly #options: PostgresWriterReconcilerOptions;
  readonly #reporter: OutcomeReporter<PostgresWriter, Reason>;
  readonly #lastChecks = new Map<string, LastCheck>();

  constructor(options: PostgresWriterReconcilerOptions) {
    this.#options = options;
    const { events } = options;
    this.#reporter = new OutcomeReporter({ kind: PostgresWriter, reasons: postgresWriterReasons, events });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const writer = this.#options.writers.get(key);
    if (writer === undefined) {
      this.#lastChecks.delete(keyString(key));
      return done;
    }
    if (this.#isFresh(writer)) return done;
    return this.#options.inFlight.during(() =>
      finalizer({
        client: context.client,
        kind: PostgresWriter,
        object: writer,
        name: postgresWriterFinalizer,
        apply: (guarded) => this.#apply(guarded, context),
        cleanup: (deleted) => this.#cleanUp(deleted, context),
      }),
    );
  }

  async #apply(writer: PostgresWriter, context: ReconcileContext): Promise<Result> {
    const { signal } = context;
    let current = writer;
    let waiting = '';
    try {
      const table = await this.#findTable(writer);
      const noted = await this.#note(writer, table, context);
      if (noted === undefined) return done;
      current = noted;
      const text = tableText(table);
      let written = await this.#upsert(current, table, { isKnown: reasonOf(current) === 'RowWritten', signal });
      const others = (current.status?.tables ?? []).filter((other) => other !== text);
      for (const other of others) {
        waiting = `the row is in ${text}; waiting to delete it from ${other}: `;
        await this.#delete(current, other, signal);
      }
      waiting = '';
      if (others.length > 0) written = await this.#upsert(current, table, { isKnown: true, signal });
      const outcome = writtenOutcome(written, text);
      const result = await this.#report(current, outcome, context, [text]);
      const notice = noticeOf(writer, { text, others, written, reason: outcome.reason });
      if (notice !== undefined) this.#reporter.tell(writer, notice, context);
      this.#checked(writer);
      return result;
    } catch (error) {
      const failure = failureOutcome(error);
      if (failure === undefined) throw error;
      const message = `${waiting}${failure.message}`;
      return this.#report(current, { ...failure, message }, context, current.status?.tables ?? []);
    }
  }

  /** Adds the table to the status. Undefined if the PostgresWriter is gone. */
  async #note(writer: PostgresWriter, table: Table, { client }: ReconcileContext): Promise<PostgresWriter | undefined> {
    const tables = writer.status?.tables ?? [];
    const text = tableText(table);
    if (tables.includes(text)) return writer;
    return writeStatus(client, PostgresWriter, writer, { tables: [...tables, text] });
  }

  #upsert(
    writer: PostgresWriter,
    table: Table,
    { isKnown, signal }: { readonly isKnown: boolean; readonly signal: AbortSignal },
  ): Promise<Written> {
    const { inFlight, tables } = this.#options;
    // On abort the wait is given up, not the statement: it holds other rows too.
    return untilAborted(
      inFlight.waiting(() => tables.rowsOf(table).upsert(rowOf(writer), isKnown)),
      signal,
    );
  }

  /**
   * Deletes the row from a table. A table that has been missing for long enough counts as gone with its rows; before that it may
   * come back, under a rename or from a backup.
   */
  async #delete(writer: PostgresWriter, text: string, signal: AbortSignal): Promise<void> {
    const { inFlight, tables, missingMs } = this.#options;
    const table = namedTable(text);
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
      if (Date.now() < Math.max(error.since.getTime(), deletedAtMs) + missingMs) throw error;
    }
  }

  async #cleanUp(writer: PostgresWriter, context: ReconcileContext): Promise<Result> {
    let tables = writer.status?.tables;
    try {
      tables ??= await this.#unnotedTables(writer);
      for (const text of tables) await this.#delete(writer, text, context.signal);
      return done;
    } catch (error) {
      const failure = failureOutcome(error);
      if (failure === undefined) throw error;
      const where = tables?.join(' and ') ?? writer.spec.table;
      const message = `waiting to delete the row from ${where}: ${failure.message}`;
      const requeueAfterMs = failure.requeueAfterMs ?? stuckRetryMs;
      return this.#report(writer, { ...failure, message, requeueAfterMs }, context, tables ?? []);
    }
  }

  /** The tables of one whose status names none: the original operator, or one before a restore, may have written its row. */
  async #unnotedTables(writer: PostgresWriter): Promise<readonly string[]> {
    try {
      return [tableText(await this.#findTable(writer))];
    } catch (error) {
      const reason = failureOutcome(error)?.reason;
      if (reason !== undefined && holdingNothing.includes(reason)) return [];
      throw error;
    }
  }

  /** @throws InvalidSpecError, InvalidTableNameError, TableNotAllowedError; what {@link Tables.find} throws. */
  async #findTable(writer: PostgresWriter): Promise<Table> {
    const missing = missingField(PostgresWriter, writer);
    if (missing !== undefined) throw new InvalidSpecError(`${missing} is missing`);
    return this.#allowed(await this.#options.tables.find(parseTableName(writer.spec.table)));
  }

  /** @throws TableNotAllowedError */
  #allowed(table: Table): Table {
    const { allowedTables } = this.#options;
    if (allowedTables === undefined || allowedTables.has(tableText(table))) return table;
    throw new TableNotAllowedError(`the operator is not to touch the table ${tableText(table)} (PSQL_TABLES)`);
  }

  /** @param tables that may hold the row. */
  #report(
    writer: PostgresWriter,
    outcome: WriterOutcome,
    context: ReconcileContext,
    tables: readonly string[],
  ): Promise<Result> {
    const status = { tables: tables.length === 0 ? null : [...tables] };
    return this.#reporter.report(writer, { ...outcome, status }, context);
  }

  #checked(writer: PostgresWriter): void {
    const { uid, generation } = writer.metadata;
    this.#lastChecks.set(rowIdOf(writer), { uid, generation, atMs: performance.now() });
  }

  #isFresh(writer: PostgresWriter): boolean {
    const { uid, generation, deletionTimestamp, finalizers } = writer.metadata;
    const last = this.#lastChecks.get(rowIdOf(writer));
    if (last === undefined || last.uid !== uid || last.generation !== generation) return false;
    if (performance.now() - last.atMs >= this.#options.freshMs) return false;
    const isGuarded = finalizers?.includes(postgresWriterFinalizer) ?? false;
    return isGuarded && deletionTimestamp === undefined && isAtRest(writer);
  }
}

const writtenOutcome = (written: Written, table: string): WriterOutcome =>
  written === 'altered'
    ? {
        reason: 'RowAltered',
        message: `the row is in ${table}, but not as the spec asks: a trigger, or the type of a column, changes it`,
      }
    : { reason: 'RowWritten', message: `the row is in ${table}` };

/** An Event of its own for a write that leaves the reason of `Ready` as it was. */
function noticeOf(
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
    const note = `the row was moved from ${others.join(' and ')} to ${text}`;
    return { type: 'Normal', reason: 'RowMoved', note } as const;
  }
  const before = findCondition(status?.conditions, 'Ready');
  if (before?.reason !== reason || written === 'unchanged') return undefined;
  if (before.observedGeneration !== metadata.generation) {
    return { type: 'Normal', reason: 'RowUpdated', note: `the row in ${text} was updated` } as const;
  }
  // The table alters the row at each resync: that is nobody's change.
  if (written === 'altered') return undefined;
  const note = `the row in ${text} was changed or deleted by others, and is written anew`;
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

/** Why a table of which the status says nothing can hold no row either. */
const holdingNothing: readonly Reason[] = [
  'InvalidSpec',
  'InvalidTable',
  'TableNotAllowed',
  'TableMissing',
  'ColumnMissing',
];

/** The reason of `Ready`, if the status has it of the present generation. */
function reasonOf({ metadata, status }: PostgresWriter): string | undefined {
  const ready = findCondition(status?.conditions, 'Ready');
  return ready?.observedGeneration === metadata.generation ? ready?.reason : undefined;
}

/** Whether the row is in its table, and in no other. */
const isAtRest = (writer: PostgresWriter): boolean =>
  ['RowWritten', 'RowAltered'].includes(reasonOf(writer) ?? '') && writer.status?.tables?.length === 1;

/** A table of the status; undefined for a text that the operator has not written there itself. */
function namedTable(text: string): Table | undefined {
  try {
    const { schema, name } = parseTableName(text);
    return schema === undefined ? undefined : { schema, name };
  } catch (error) {
    if (error instanceof InvalidTableNameError) return undefined;
    throw error;
  }
}
