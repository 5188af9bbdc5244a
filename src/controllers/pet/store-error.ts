import { Code, ConnectError } from '@connectrpc/connect';

/** What a failed call to the store means. */
export type StoreFailure =
  /** There was no answer, or none that counts: whether the store has done it is not known. */
  | 'down'
  /** The store will not have this pet, and would say so again. */
  | 'refused'
  /** It has no such pet. */
  | 'unknown'
  /** It has failed, or does not let us: nothing that the pet could mend. Whether it has done it is not known. */
  | 'failed';

const downCodes: readonly Code[] = [Code.Unavailable, Code.DeadlineExceeded, Code.Aborted, Code.Canceled, Code.Unknown];
const refusedCodes: readonly Code[] = [Code.InvalidArgument, Code.OutOfRange];

/** Undefined for what is no failed call. */
export function failureOf(error: unknown): StoreFailure | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const { code } = error;
  // Made of an error of our end of the connection; what the store says has no cause.
  if (downCodes.includes(code) || (code === Code.Internal && error.cause !== undefined)) return 'down';
  if (refusedCodes.includes(code)) return 'refused';
  return code === Code.NotFound ? 'unknown' : 'failed';
}
