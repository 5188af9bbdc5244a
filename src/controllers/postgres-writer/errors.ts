/** Why the database as a whole cannot be used. */
export type DatabaseReason = 'DatabaseDown' | 'DatabaseMissing' | 'AccessDenied' | 'CredentialsMissing' | 'TlsRefused';

/** Why a table cannot be used. */
export type TableReason = 'TableMissing' | 'ColumnMissing' | 'PermissionDenied' | 'TableBusy' | 'TableUnsuitable';

/** There was no connection, or it broke: a statement in flight may have been carried out. */
export class ConnectionFailedError extends Error {
  override readonly name = 'ConnectionFailedError';

  constructor(cause: unknown) {
    super(wordsOf(cause), { cause });
  }
}

/** The user or the password cannot be read. */
export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
}

/** The table cannot hold the rows according to the catalogue, or takes no statement in time. */
export class UnfitTableError extends Error {
  override readonly name = 'UnfitTableError';
  readonly reason: TableReason;

  constructor(reason: TableReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** The PostgresWriter was stored under an older definition, without a field that the row needs. */
export class InvalidSpecError extends Error {
  override readonly name = 'InvalidSpecError';
}

/** The table is not among those that the operator may write to. */
export class TableNotAllowedError extends Error {
  override readonly name = 'TableNotAllowedError';
}

/** The database refuses this one row for its content. It would refuse it again, and takes others. */
export class RowRefusedError extends Error {
  override readonly name = 'RowRefusedError';
}

/** A row could not be written or deleted in time: it is locked, or takes too long, or rows before it did. */
export class RowBusyError extends Error {
  override readonly name = 'RowBusyError';
}

/** The message of an error. Node gives none to an error with several causes, as of a host with several addresses. */
function wordsOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(wordsOf).join('; ');
  if (!(error instanceof Error)) return String(error);
  return error.message || ('code' in error ? String(error.code) : error.name);
}

/**
 * The SQLSTATE of an answer of PostgreSQL (https://www.postgresql.org/docs/current/errcodes-appendix.html). Errors of Node have
 * codes too, but no severity.
 */
export function sqlStateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('severity' in error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : undefined;
}

const databaseReasons: Readonly<Record<string, DatabaseReason>> = {
  '28000': 'AccessDenied',
  '28P01': 'AccessDenied',
  '3D000': 'DatabaseMissing',
  // A standby, or a primary that was made one: a failover is under way.
  '25006': 'DatabaseDown',
};

/** Connections, resources, the operator's intervention, the system. */
const downClasses: readonly string[] = ['08', '53', '57', '58'];

/** The one code of these classes that concerns a single statement: it was cancelled. */
const queryCanceled = '57014';

/** Why the error means that the database cannot be used. Undefined if it does not. */
export function databaseReasonOf(error: unknown): DatabaseReason | undefined {
  if (error instanceof CredentialsError) return 'CredentialsMissing';
  if (error instanceof ConnectionFailedError) return isTlsError(error.cause) ? 'TlsRefused' : 'DatabaseDown';
  const state = sqlStateOf(error);
  if (state === undefined || state === queryCanceled) return undefined;
  // pg_hba.conf requires TLS; only the message tells.
  if (state === '28000' && error instanceof Error && /no encryption|SSL off/.test(error.message)) return 'TlsRefused';
  return databaseReasons[state] ?? (downClasses.includes(state.slice(0, 2)) ? 'DatabaseDown' : undefined);
}

/** By the codes of OpenSSL and Node, and by the message of the client library, which has no code. */
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
 * Why the table, or a row of the statement, has made the statement fail: the error does not tell which of them. A trigger chooses
 * its SQLSTATE freely, and the refusal by a policy is a lack of privilege. Undefined for other errors.
 */
export function tableReasonOf(error: unknown): TableReason | undefined {
  if (error instanceof UnfitTableError) return error.reason;
  const state = sqlStateOf(error);
  if (state === undefined || databaseReasonOf(error) !== undefined) return undefined;
  return tableReasons[state] ?? 'TableUnsuitable';
}

/** Whether somebody else holds a lock of the table or of a row, or the statement took too long. */
export const isBusy = (error: unknown): boolean => tableReasonOf(error) === 'TableBusy';
