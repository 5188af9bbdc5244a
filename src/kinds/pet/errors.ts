import { Code, ConnectError } from '@connectrpc/connect';

/** The meaning of a failed call to the store. */
export type StoreFailure =
  /** No answer. It is unknown whether the store has carried out the request. */
  | 'down'
  /** The store fails for every pet, or denies access. It is unknown whether it has carried out the request. */
  | 'unusable'
  /** The store refuses this pet or this search, and would refuse it again. */
  | 'refused'
  /** The store has no such pet. */
  | 'unknown'
  /** The store has not carried out this request, for a reason other than the pet. */
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

/** The meaning of an error. Undefined if it does not come from a call to the store. */
export function failureOf(error: unknown): StoreFailure | undefined {
  if (error instanceof RefusedError) return 'refused';
  if (error instanceof SearchRefusedError) return 'failed';
  if (!(error instanceof ConnectError)) return undefined;
  // An error of the client has a cause; an answer of the store has none.
  return error.code === Code.Internal && error.cause !== undefined ? 'down' : failures[error.code];
}

/** Whether the store knows the request id from a request with other content. */
export const isRequestIdTaken = (error: unknown): boolean =>
  error instanceof ConnectError && error.code === Code.AlreadyExists;

/** The reason of `Ready` if an error means that the store cannot be used for any pet. Otherwise undefined. */
export function outageOf(error: unknown): 'PetStoreUnavailable' | 'PetStoreFailed' | undefined {
  const failure = failureOf(error);
  if (failure === 'down') return 'PetStoreUnavailable';
  return failure === 'unusable' ? 'PetStoreFailed' : undefined;
}

/** The store has refused to add or update this pet. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
}

/** The store refuses searches. It may still accept writes. */
export class SearchRefusedError extends Error {
  override readonly name = 'SearchRefusedError';
}
