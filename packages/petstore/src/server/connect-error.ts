import { Code, ConnectError } from '@connectrpc/connect';
import { cutText } from '@echoperator/runtime/client';
import { InvalidRequestError, RequestIdTakenError, TooBusyError, UnknownPetError } from './errors.ts';

/** SQLite's result codes that do not point to a defect of this program (https://www.sqlite.org/rescode.html). */
const sqliteCodes: ReadonlyMap<number, Code> = new Map([
  // SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY, SQLITE_IOERR, SQLITE_CANTOPEN.
  ...[5, 6, 8, 10, 14].map((result) => [result, Code.Unavailable] as const),
  // SQLITE_FULL.
  [13, Code.ResourceExhausted],
  // SQLITE_CORRUPT, SQLITE_NOTADB.
  ...[11, 26].map((result) => [result, Code.DataLoss] as const),
]);

/**
 * Converts an error into the response for the client. The message contains the reason if the client can act on it.
 * `cause` is set only if the pet store is at fault.
 */
export function asConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof InvalidRequestError) return new ConnectError(error.message, Code.InvalidArgument);
  if (error instanceof UnknownPetError) return new ConnectError(error.message, Code.NotFound);
  if (error instanceof RequestIdTakenError) return new ConnectError(error.message, Code.AlreadyExists);
  if (error instanceof TooBusyError) return new ConnectError(error.message, Code.ResourceExhausted);
  const code = sqliteCodes.get(sqliteResult(error) & 0xff);
  if (code !== undefined)
    return new ConnectError(cutText(`the database: ${String(error)}`), code, undefined, undefined, error);
  return new ConnectError('internal error: see the log of the pet store', Code.Internal, undefined, undefined, error);
}

/** SQLite's extended result code; 0 for any other error. */
function sqliteResult(error: unknown): number {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' ? error.errcode : 0;
}
