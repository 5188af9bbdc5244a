import { PostgresWriter, postgresWriterFinalizer } from '../../api/index.ts';
import {
  done,
  type EventRecorder,
  finalizer,
  findCondition,
  keyString,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
  type Result,
  requeueAfter,
} from '../../runtime/index.ts';
import { reportReady, writeStatus } from '../report-ready.ts';
import {
  type Finding,
  findingOf,
  InvalidSpecError,
  type Reason,
  readyReport,
  TableNotAllowedError,
} from './postgres-writer-status.ts';
import type { Rendezvous } from './rendezvous.ts';
import { rowIdOf, rowOf } from './row.ts';
import type { Written } from './rows.ts';
import { InvalidTableNameError, parseTableName, type Table, tableText } from './table-name.ts';
import type { Tables } from './tables.ts';

/** What the reconciler reads and writes by. */
export interface PostgresWriterReconcilerOptions {
  readonly writers: ReadonlyStore<PostgresWriter>;
  readonly tables: Tables;
  readonly rendezvous: Rendezvous;
  readonly events: EventRecorder;
  /** The only tables that may be written to, with their schemas. Undefined: every one. */
  readonly allowedTables?: ReadonlySet<string> | undefined;
  /**
   * For how long a row that was looked at needs no other look, in milliseconds. Each write of a status brings its key back
   * once, and that is not what a row is read for.
   */
  readonly freshMs: number;
  /** For how long a deletion waits for a table that is missing to come back, in milliseconds. */
  readonly missingMs: number;
}

/** A deletion that nothing but a person can further is looked at again all the same. */
const stuckRetryMs = 60_000;

/** A row that was seen as it should be. */
interface Look {
  readonly uid: string;
  readonly generation: number;
  readonly atMs: number;
}

/**
 * Keeps one row for each PostgresWriter, in its table and in no other.
 *
 * Before the first statement on a table the status names it; so whatever is killed in between, the next reconcile knows
 * every table that may hold the row. It is written to the one of the spec first, and then deleted from the others; and then
 * looked at once more, since two tables may share their rows, as a view does.
 */
export class PostgresWriterReconciler {
  readonly #options: PostgresWriterReconcilerOptions;
  readonly #looks = new Map<string, Look>();

  constructor(options: PostgresWriterReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const writer = this.#options.writers.get(key);
    if (writer === undefined) {
      this.#looks.delete(keyString(key));
      return done;
    }
    if (this.#isFresh(writer)) return done;
    return this.#options.rendezvous.during(() =>
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
    let current = writer;
    try {
      const table = await this.#options.tables.find(parseTableName(checked(writer).spec.table));
      const noted = await this.#note(writer, this.#allowed(table), context);
      if (noted === undefined) return done;
      current = noted;
      const written = await this.#write(current, table, context);
      await this.#report(current, foundWritten(written, table), context, [tableText(table)]);
      if (written === 'written') this.#tellIfRestored(writer, table, context);
      this.#looked(writer);
      return done;
    } catch (error) {
      const finding = findingOf(error);
      if (finding === undefined) throw error;
      await this.#report(current, finding, context, current.status?.tables ?? []);
      return finding.retryAfterMs === undefined ? done : requeueAfter(finding.retryAfterMs);
    }
  }

  /** Names the table in the status, unless it stands there. Undefined if the PostgresWriter is gone. */
  async #note(writer: PostgresWriter, table: Table, { client }: ReconcileContext): Promise<PostgresWriter | undefined> {
    const tables = writer.status?.tables ?? [];
    const text = tableText(table);
    if (tables.includes(text)) return writer;
    return writeStatus(client, PostgresWriter, writer, { tables: [...tables, text] });
  }

  /** The row to its table, and out of every other. */
  async #write(writer: PostgresWriter, table: Table, { signal }: ReconcileContext): Promise<Written> {
    const written = await this.#upsert(writer, table, { isKnown: reasonOf(writer) === 'RowWritten', signal });
    const others = (writer.status?.tables ?? []).filter((other) => other !== tableText(table));
    // One that is gone has no row of it. It may well be the same under its new name.
    for (const other of others) await this.#delete(writer, other, signal).catch(unlessMissing);
    return others.length === 0 ? written : this.#upsert(writer, table, { isKnown: true, signal });
  }

  #upsert(
    writer: PostgresWriter,
    table: Table,
    { isKnown, signal }: { readonly isKnown: boolean; readonly signal: AbortSignal },
  ): Promise<Written> {
    const { rendezvous, tables } = this.#options;
    return orAborted(
      rendezvous.waiting(() => tables.rowsOf(table).upsert(rowOf(writer), isKnown)),
      signal,
    );
  }

  async #delete(writer: PostgresWriter, text: string, signal: AbortSignal): Promise<void> {
    const { rendezvous, tables } = this.#options;
    const table = namedTable(text);
    if (table === undefined) return;
    const rows = tables.rowsOf(this.#allowed(table));
    await orAborted(
      rendezvous.waiting(() => rows.delete(rowIdOf(writer))),
      signal,
    );
  }

  async #cleanUp(writer: PostgresWriter, context: ReconcileContext): Promise<Result> {
    let tables = writer.status?.tables;
    try {
      tables ??= await this.#unnoted(writer);
      const isPatient = Date.now() < deletedAtMs(writer) + this.#options.missingMs;
      for (const text of tables) {
        await this.#delete(writer, text, context.signal).catch((error: unknown) => {
          if (isPatient) throw error;
          unlessMissing(error);
        });
      }
      return done;
    } catch (error) {
      const finding = findingOf(error);
      if (finding === undefined) throw error;
      const where = tables?.join(' and ') ?? writer.spec.table;
      const message = `waiting to delete the row from ${where}: ${finding.message}`;
      await this.#report(writer, { ...finding, message }, context, tables ?? []);
      return requeueAfter(finding.retryAfterMs ?? stuckRetryMs);
    }
  }

  /** The tables of one whose status names none: the original operator, or one before a restore, may have written its row. */
  async #unnoted(writer: PostgresWriter): Promise<readonly string[]> {
    try {
      const table = await this.#options.tables.find(parseTableName(checked(writer).spec.table));
      return [tableText(this.#allowed(table))];
    } catch (error) {
      const reason = findingOf(error)?.reason;
      if (reason !== undefined && holdingNothing.includes(reason)) return [];
      throw error;
    }
  }

  /** @throws TableNotAllowedError */
  #allowed(table: Table): Table {
    const { allowedTables } = this.#options;
    if (allowedTables === undefined || allowedTables.has(tableText(table))) return table;
    throw new TableNotAllowedError(`the operator is not to touch the table ${tableText(table)} (PSQL_TABLES)`);
  }

  #report(
    writer: PostgresWriter,
    finding: Finding,
    context: ReconcileContext,
    tables: readonly string[],
  ): Promise<void> {
    const report = readyReport(writer, finding, tables, new Date());
    return reportReady(this.#options.events, PostgresWriter, writer, report, context);
  }

  /** The status said that the row was as this very spec asks, and it was not: somebody else has been there. */
  #tellIfRestored(writer: PostgresWriter, table: Table, { log }: ReconcileContext): void {
    if (reasonOf(writer) !== 'RowWritten' || writer.status?.tables?.length !== 1) return;
    const note = `the row in ${tableText(table)} was changed or deleted by others, and is written anew`;
    log.info({ table: tableText(table) }, 'a row was changed or deleted by others: it is written anew');
    this.#options.events.record(PostgresWriter, writer, {
      type: 'Warning',
      reason: 'RowRestored',
      action: 'Reconcile',
      note,
    });
  }

  #looked(writer: PostgresWriter): void {
    const { uid, generation } = writer.metadata;
    this.#looks.set(rowIdOf(writer), { uid, generation, atMs: performance.now() });
  }

  #isFresh(writer: PostgresWriter): boolean {
    const { uid, generation, deletionTimestamp, finalizers } = writer.metadata;
    const look = this.#looks.get(rowIdOf(writer));
    if (look === undefined || look.uid !== uid || look.generation !== generation) return false;
    if (performance.now() - look.atMs >= this.#options.freshMs) return false;
    const isGuarded = finalizers?.includes(postgresWriterFinalizer) ?? false;
    return isGuarded && deletionTimestamp === undefined && isAtRest(writer);
  }
}

const foundWritten = (written: Written, table: Table): Finding =>
  written === 'altered'
    ? {
        reason: 'RowAltered',
        message: `the row is in ${tableText(table)}, but not as the spec asks: a trigger, or the type of a column, changes it`,
      }
    : { reason: 'RowWritten', message: `the row is in ${tableText(table)}` };

/** Why a table of which the status says nothing can hold no row either. */
const holdingNothing: readonly Reason[] = [
  'InvalidSpec',
  'InvalidTable',
  'TableNotAllowed',
  'TableMissing',
  'ColumnMissing',
];

function unlessMissing(error: unknown): void {
  if (findingOf(error)?.reason !== 'TableMissing') throw error;
}

const deletedAtMs = ({ metadata }: PostgresWriter): number => Date.parse(metadata.deletionTimestamp ?? '');

/** @throws InvalidSpecError where something is missing. */
function checked(writer: PostgresWriter): PostgresWriter {
  const spec = writer.spec as Partial<PostgresWriter['spec']> | undefined;
  const missing = (['table', 'name', 'age', 'country'] as const).find((field) => spec?.[field] === undefined);
  if (missing !== undefined) throw new InvalidSpecError(`spec.${missing} is missing`);
  return writer;
}

/** Of Ready, as the status has it of this very spec. */
function reasonOf({ metadata, status }: PostgresWriter): string | undefined {
  const ready = findCondition(status?.conditions, 'Ready');
  return ready?.observedGeneration === metadata.generation ? ready?.reason : undefined;
}

/** The row is in its table, and in no other. */
const isAtRest = (writer: PostgresWriter): boolean =>
  ['RowWritten', 'RowAltered'].includes(reasonOf(writer) ?? '') && writer.status?.tables?.length === 1;

/** A table of the status; undefined for what the operator has not written there itself. */
function namedTable(text: string): Table | undefined {
  try {
    const { schema, name } = parseTableName(text);
    return schema === undefined ? undefined : { schema, name };
  } catch (error) {
    if (error instanceof InvalidTableNameError) return undefined;
    throw error;
  }
}

/** Gives up the wait, not the statement: other rows are in it too. */
async function orAborted<T>(result: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const giveUp = (): void => reject(signal.reason);
  signal.addEventListener('abort', giveUp, { once: true });
  if (signal.aborted) giveUp();
  try {
    return await Promise.race([result, aborted]);
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}
