/** Why the database as a whole cannot be used. */
export type DatabaseReason = 'DatabaseDown' | 'DatabaseMissing' | 'AccessDenied' | 'CredentialsMissing' | 'TlsRefused';

/** Why a table cannot be used. */
export type TableReason = 'TableMissing' | 'ColumnMissing' | 'PermissionDenied' | 'TableBusy' | 'TableUnsuitable';

/** There was no connection, or it broke: what was under way on it may have been done. */
export class ConnectionFailedError extends Error {
  override readonly name = 'ConnectionFailedError';

  constructor(cause: unknown) {
    super(wordsOf(cause), { cause });
  }
}

/** The name or the password cannot be read from where they are to be. */
export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
}

/** A table that cannot hold the rows, as the database's catalogue has it. */
export class UnfitTableError extends Error {
  override readonly name = 'UnfitTableError';
  readonly reason: TableReason;

  constructor(reason: TableReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Of errors with several causes, as of a host with several addresses, Node has no message. */
function wordsOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(wordsOf).join('; ');
  if (!(error instanceof Error)) return String(error);
  return error.message || ('code' in error ? String(error.code) : error.name);
}

/**
 * The SQLSTATE of what PostgreSQL has refused (https://www.postgresql.org/docs/current/errcodes-appendix.html). Errors of
 * Node's have codes too, and no severity.
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

/** Of the intervention's class, what concerns one statement alone: it was cancelled. */
const queryCanceled = '57014';

/** Undefined: the database has answered. */
export function databaseReasonOf(error: unknown): DatabaseReason | undefined {
  if (error instanceof CredentialsError) return 'CredentialsMissing';
  if (error instanceof ConnectionFailedError) return isTlsError(error.cause) ? 'TlsRefused' : 'DatabaseDown';
  const state = sqlStateOf(error);
  if (state === undefined || state === queryCanceled) return undefined;
  // The server's rules ask for TLS, and say so in these words alone.
  if (state === '28000' && error instanceof Error && /no encryption|SSL off/.test(error.message)) return 'TlsRefused';
  return databaseReasons[state] ?? (downClasses.includes(state.slice(0, 2)) ? 'DatabaseDown' : undefined);
}

/** By OpenSSL's and Node's codes, and by the words of the client library, which has none. */
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

/** Undefined: the table is as good as another, as far as this error tells. */
export function tableReasonOf(error: unknown): TableReason | undefined {
  if (error instanceof UnfitTableError) return error.reason;
  const state = sqlStateOf(error);
  if (state === undefined || isRowFault(error) || databaseReasonOf(error) !== undefined) return undefined;
  return tableReasons[state] ?? 'TableUnsuitable';
}

/** There is no such table, or no such schema. */
export const isTableMissing = (error: unknown): boolean => tableReasonOf(error) === 'TableMissing';

/** Somebody else holds a lock, of the table or of a row of it. */
export const isLocked = (error: unknown): boolean => sqlStateOf(error) === '55P03';

/** Data, constraints, the check of a view, limits of the program, what a trigger says. */
const rowClasses: readonly string[] = ['22', '23', '44', '54', 'P0'];

/** The database refuses a row for what is in it: the same row would be refused again, another not. */
export function isRowFault(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state !== undefined && rowClasses.includes(state.slice(0, 2));
}
