import type { PostgresWriter } from '../../api/index.ts';
import { setCondition } from '../../runtime/index.ts';
import { OutsideDownError } from '../outside/index.ts';
import type { ReadyReport } from '../report-ready.ts';
import { type DatabaseReason, RowBusyError, RowRefusedError, type TableReason } from './faults.ts';
import { InvalidTableNameError } from './table-name.ts';

/** Why `Ready` is what it is. */
export type Reason =
  | 'RowWritten'
  | 'RowAltered'
  | 'RowRefused'
  | 'InvalidSpec'
  | 'InvalidTable'
  | 'TableNotAllowed'
  | DatabaseReason
  | TableReason;

/** Every reason, with the status of Ready that goes with it. */
export const readyByReason: Readonly<Record<Reason, 'True' | 'False'>> = {
  RowWritten: 'True',
  RowAltered: 'False',
  RowRefused: 'False',
  InvalidSpec: 'False',
  InvalidTable: 'False',
  TableNotAllowed: 'False',
  TableMissing: 'False',
  ColumnMissing: 'False',
  TableUnsuitable: 'False',
  PermissionDenied: 'False',
  TableBusy: 'False',
  DatabaseDown: 'False',
  DatabaseMissing: 'False',
  AccessDenied: 'False',
  CredentialsMissing: 'False',
  TlsRefused: 'False',
};

/** A PostgresWriter of an older definition, which let it be stored with less than a row. */
export class InvalidSpecError extends Error {
  override readonly name = 'InvalidSpecError';
}

/** The table is not among those that the operator may write to. */
export class TableNotAllowedError extends Error {
  override readonly name = 'TableNotAllowedError';
}

/** What a reconcile has come to. */
export interface Finding {
  readonly reason: Reason;
  readonly message: string;
  /** When to look again, in milliseconds. Absent: when something changes, or with the next resync. */
  readonly retryAfterMs?: number;
}

/** A row that is locked is tried again after so long. */
const busyRetryMs = 5000;

/** What an error means for the PostgresWriter that it has struck. Undefined: it is not one that a status can tell. */
export function findingOf(error: unknown, random: () => number = Math.random): Finding | undefined {
  if (!(error instanceof Error)) return undefined;
  const { message } = error;
  if (error instanceof OutsideDownError && isReason(error.reason)) {
    return { reason: error.reason, message, retryAfterMs: error.retryAfterMs };
  }
  if (error instanceof InvalidSpecError) return { reason: 'InvalidSpec', message };
  if (error instanceof InvalidTableNameError) return { reason: 'InvalidTable', message };
  if (error instanceof TableNotAllowedError) return { reason: 'TableNotAllowed', message };
  if (error instanceof RowRefusedError) return { reason: 'RowRefused', message };
  if (error instanceof RowBusyError) {
    return { reason: 'TableBusy', message, retryAfterMs: busyRetryMs * (1 + random()) };
  }
  return undefined;
}

const isReason = (reason: string): reason is Reason => Object.hasOwn(readyByReason, reason);

/**
 * What is to be reported; others' conditions stay.
 *
 * @param tables that may hold the row.
 */
export function readyReport(
  writer: PostgresWriter,
  { reason, message }: Finding,
  tables: readonly string[],
  now: Date,
): ReadyReport<PostgresWriter> {
  const { generation } = writer.metadata;
  const ready = { type: 'Ready', status: readyByReason[reason], reason, message, observedGeneration: generation };
  return {
    reason,
    message,
    isWarning: reason !== 'RowWritten',
    status: {
      tables: tables.length === 0 ? null : [...tables],
      observedGeneration: generation,
      conditions: setCondition(writer.status?.conditions, ready, now),
    },
  };
}
