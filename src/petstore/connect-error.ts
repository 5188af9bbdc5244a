import { Code, ConnectError } from '@connectrpc/connect';
import { InvalidRequestError, RequestIdTakenError, TooBusyError, UnknownPetError } from './errors.ts';

/** SQLite's results that are no defect of this program (https://www.sqlite.org/rescode.html). */
const sqliteCodes: ReadonlyMap<number, Code> = new Map([
  // Busy, locked, read-only, a failure to read or write, a file that cannot be opened.
  ...[5, 6, 8, 10, 14].map((result) => [result, Code.Unavailable] as const),
  // Full.
  [13, Code.ResourceExhausted],
  // Corrupt, and no database at all.
  ...[11, 26].map((result) => [result, Code.DataLoss] as const),
]);

/**
 * What a client is told of an error: its code, and where the client can do something about it, why. It has a cause where the
 * store is at fault.
 */
export function asConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof InvalidRequestError) return new ConnectError(error.message, Code.InvalidArgument);
  if (error instanceof UnknownPetError) return new ConnectError(error.message, Code.NotFound);
  if (error instanceof RequestIdTakenError) return new ConnectError(error.message, Code.AlreadyExists);
  if (error instanceof TooBusyError) return new ConnectError(error.message, Code.ResourceExhausted);
  const code = sqliteCodes.get(sqliteResult(error) & 0xff);
  if (code !== undefined) return new ConnectError(`the database: ${String(error)}`, code, undefined, undefined, error);
  return new ConnectError('the store failed: its log says why', Code.Internal, undefined, undefined, error);
}

/** Its extended result code; 0 for what is no error of SQLite. */
function sqliteResult(error: unknown): number {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' ? error.errcode : 0;
}
