import { Code, ConnectError } from '@connectrpc/connect';

/** What a failed call to the store means. */
export type StoreFailure =
  /** There was no answer. Whether the store has carried out the request is not known. */
  | 'down'
  /** The store cannot do it for any pet, or forbids it. Whether it has carried out the request is not known. */
  | 'unusable'
  /** The store refuses this pet, or this search, and would refuse it again. */
  | 'refused'
  /** The store has no such pet. */
  | 'unknown'
  /** The store has not carried out this one request, for a reason that is not the pet's. */
  | 'failed';

const failures: Readonly<Record<Code, StoreFailure>> = {
  [Code.Unavailable]: 'down',
  [Code.DeadlineExceeded]: 'down',
  [Code.Aborted]: 'down',
  [Code.Canceled]: 'down',
  [Code.Unknown]: 'down',
  [Code.Internal]: 'unusable',
  [Code.DataLoss]: 'unusable',
  [Code.ResourceExhausted]: 'unusable',
  [Code.PermissionDenied]: 'unusable',
  [Code.Unauthenticated]: 'unusable',
  [Code.Unimplemented]: 'unusable',
  [Code.InvalidArgument]: 'refused',
  [Code.OutOfRange]: 'refused',
  [Code.NotFound]: 'unknown',
  [Code.AlreadyExists]: 'failed',
  [Code.FailedPrecondition]: 'failed',
};

/** What a failed call means. Undefined for an error that does not come from a call to the store. */
export function failureOf(error: unknown): StoreFailure | undefined {
  if (error instanceof RefusedError) return 'refused';
  if (error instanceof SearchRefusedError) return 'failed';
  if (!(error instanceof ConnectError)) return undefined;
  // An error of our end of the connection has a cause; an answer of the store has none.
  return error.code === Code.Internal && error.cause !== undefined ? 'down' : failures[error.code];
}

/** The reason of `Ready` if a failed call means that the store cannot be used for any pet; undefined if it means no outage. */
export function outageOf(error: unknown): 'PetStoreUnavailable' | 'PetStoreFailed' | undefined {
  const failure = failureOf(error);
  if (failure === 'down') return 'PetStoreUnavailable';
  return failure === 'unusable' ? 'PetStoreFailed' : undefined;
}

/** The store refuses this pet: it has not added or changed it. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
}

/** The store answers, but cannot be searched. It may still be written to. */
export class SearchRefusedError extends Error {
  override readonly name = 'SearchRefusedError';
}
