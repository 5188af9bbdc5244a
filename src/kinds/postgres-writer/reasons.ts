import { findCondition, type Outcome, type ReadonlyStore } from '@echoperator/runtime';
import { ExternalSystemDownError } from '../../external/circuit.ts';
import { type DatabaseReason, RowBusyError, RowRefusedError, TableNotAllowedError } from './errors.ts';
import type { PostgresWriter } from './kind.ts';
import { InvalidTableNameError } from './statements.ts';

/** The reasons of `Ready` of a PostgresWriter, beside the standard ones. */
export const postgresWriterReasons = {
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
  InvalidTable: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning: '`table` is not the name of a table.',
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
    meaning: 'The role lacks a permission on the table. The message names it.',
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
} as const;

type Reason = keyof typeof postgresWriterReasons;
export type WriterOutcome = Outcome<Reason, PostgresWriter>;

/** When to retry a row that is locked, in milliseconds; with up to 100 % jitter. */
const busyRetryMs = 5000;

/** The outcome of a failed reconcile. Undefined for an unexpected error. */
export function failureOutcome(error: unknown, random: () => number = Math.random): WriterOutcome | undefined {
  if (!(error instanceof Error)) return undefined;
  const { message } = error;
  if (error instanceof ExternalSystemDownError && isReason(error.reason)) {
    return { reason: error.reason, message, requeueAfterMs: error.retryAfterMs };
  }
  if (error instanceof InvalidTableNameError) return { reason: 'InvalidTable', message };
  if (error instanceof TableNotAllowedError) return { reason: 'TableNotAllowed', message };
  if (error instanceof RowRefusedError) return { reason: 'RowRefused', message };
  if (error instanceof RowBusyError) {
    return { reason: 'TableBusy', message, requeueAfterMs: busyRetryMs * (1 + random()) };
  }
  return undefined;
}

const isReason = (reason: string): reason is Reason => Object.hasOwn(postgresWriterReasons, reason);

/**
 * With these reasons, a table that was looked up for a deletion has no row of the PostgresWriter, or the operator may
 * not use the table.
 */
const reasonsWithoutRow: ReadonlySet<string | undefined> = new Set<Reason>([
  'InvalidTable',
  'TableNotAllowed',
  'TableMissing',
  'ColumnMissing',
]);

/**
 * Whether there is no row to delete in a table that the status does not name, because of the error of its look-up for a
 * deletion.
 */
export const excludesRow = (error: unknown): boolean => reasonsWithoutRow.has(failureOutcome(error)?.reason);

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
