import { Code, ConnectError } from '@connectrpc/connect';
import { InvalidRequestError, TooBusyError, UnknownPetError } from './errors.ts';

/** SQLite's results that are no defect of the file (https://www.sqlite.org/rescode.html): busy, locked, full. */
const sqliteCodes: ReadonlyMap<number, Code> = new Map([
  [5, Code.Unavailable],
  [6, Code.Unavailable],
  [13, Code.ResourceExhausted],
]);

/** What a client is told of an error: its code, and where the client can do something about it, why. */
export function asConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof InvalidRequestError) return new ConnectError(error.message, Code.InvalidArgument);
  if (error instanceof UnknownPetError) return new ConnectError(error.message, Code.NotFound);
  if (error instanceof TooBusyError) return new ConnectError(error.message, Code.ResourceExhausted);
  const code = sqliteCodes.get(sqliteResult(error) & 0xff);
  if (code !== undefined) return new ConnectError(`the database: ${String(error)}`, code);
  return new ConnectError('the store failed: its log says why', Code.Internal, undefined, undefined, error);
}

/** Its extended result code; 0 for what is no error of SQLite. */
function sqliteResult(error: unknown): number {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' ? error.errcode : 0;
}
