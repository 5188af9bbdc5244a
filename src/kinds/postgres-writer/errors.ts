/** Why the database as a whole cannot be used. */
export type DatabaseReason = 'DatabaseDown' | 'DatabaseMissing' | 'AccessDenied' | 'CredentialsMissing' | 'TlsRefused';

/** Why a table cannot be used. */
export type TableReason =
  | 'TableMissing'
  | 'TableNotAllowed'
  | 'ColumnMissing'
  | 'PermissionDenied'
  | 'TableBusy'
  | 'TableUnsuitable';

/** The connection failed or broke. A statement in flight may have been executed. */
export class ConnectionFailedError extends Error {
  override readonly name = 'ConnectionFailedError';

  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
  }
}

/** The user or the password cannot be read. */
export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
}

/** The table does not exist, is not allowed, lacks a column, or did not execute a statement in time. */
export class UnfitTableError extends Error {
  override readonly name = 'UnfitTableError';
  readonly reason: TableReason;

  constructor(reason: TableReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The operator may not write to the table, as its name alone shows. */
export class TableNotAllowedError extends Error {
  override readonly name = 'TableNotAllowedError';
}

/** The database refuses this row because of its content. It would refuse it again, but accepts other rows. */
export class RowRefusedError extends Error {
  override readonly name = 'RowRefusedError';
}

/** A row could not be written or deleted in time: it is locked, or its statement took too long. */
export class RowBusyError extends Error {
  override readonly name = 'RowBusyError';
}

/**
 * The message of an error. Node's AggregateError, for example for a host with several addresses, has none of its own.
 */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ');
  if (!(error instanceof Error)) return String(error);
  return error.message || ('code' in error ? String(error.code) : error.name);
}

/**
 * The SQLSTATE of an error that PostgreSQL returned (https://www.postgresql.org/docs/current/errcodes-appendix.html).
 * Otherwise undefined. Errors of Node have codes too, but no severity.
 */
export function sqlStateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('severity' in error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : undefined;
}

const databaseReasons: Readonly<Record<string, DatabaseReason>> = {
  '28000': 'AccessDenied',
  '28P01': 'AccessDenied',
  '3D000': 'DatabaseMissing',
  // The server is a standby: a failover is in progress.
  '25006': 'DatabaseDown',
};

/** The SQLSTATE classes of connections, resources, operator intervention and system errors. */
const downClasses: readonly string[] = ['08', '53', '57', '58'];

/** The only code of these classes that concerns a single statement: it was cancelled. */
const queryCanceled = '57014';

/** The reason if the error means that the database cannot be used. Otherwise undefined. */
export function databaseReasonOf(error: unknown): DatabaseReason | undefined {
  if (error instanceof CredentialsError) return 'CredentialsMissing';
  if (error instanceof ConnectionFailedError) return isTlsError(error.cause) ? 'TlsRefused' : 'DatabaseDown';
  const state = sqlStateOf(error);
  if (state === undefined || state === queryCanceled) return undefined;
  // pg_hba.conf requires TLS. Only the message says so.
  if (state === '28000' && error instanceof Error && /no encryption|SSL off/.test(error.message)) return 'TlsRefused';
  return databaseReasons[state] ?? (downClasses.includes(state.slice(0, 2)) ? 'DatabaseDown' : undefined);
}

/** Checks the codes of OpenSSL and Node, and the message of the client library, whose error has no code. */
function isTlsError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return (
    /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH)/.test(code) ||
    /SSL connection/.test(error.message)
  );
}

const tableReasons: Readonly<Record<string, TableReason>> = {
  '42P01': 'TableMissing',
  '3F000': 'TableMissing',
  '42703': 'ColumnMissing',
  '42501': 'PermissionDenied',
  '55P03': 'TableBusy',
  '40001': 'TableBusy',
  '40P01': 'TableBusy',
  [queryCanceled]: 'TableBusy',
};

/**
 * The reason if the table or a row made the statement fail. The error does not show which of the two: a trigger chooses
 * its SQLSTATE freely, and a row-level policy refuses with a lack of privilege. Undefined for other errors.
 */
export function tableReasonOf(error: unknown): TableReason | undefined {
  if (error instanceof UnfitTableError) return error.reason;
  const state = sqlStateOf(error);
  if (state === undefined || databaseReasonOf(error) !== undefined) return undefined;
  return tableReasons[state] ?? 'TableUnsuitable';
}

/** Whether the table or a row is locked, or the statement took too long. */
export const isBusy = (error: unknown): boolean => tableReasonOf(error) === 'TableBusy';
