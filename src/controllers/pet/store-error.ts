import { Code, ConnectError } from '@connectrpc/connect';

/** What a failed call to the store means. */
export type StoreFailure =
  /** There was no answer, or none that counts: whether the store has done it is not known. */
  | 'down'
  /** It answers that it cannot, or does not let us, and would say so of any pet. Whether it has done it is not known. */
  | 'unusable'
  /** The store will not have this pet, and would say so again. */
  | 'refused'
  /** It has no such pet. */
  | 'unknown'
  /** It has not done this one thing, by no fault of the pet's. */
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

/** Undefined for what is no failed call. */
export function failureOf(error: unknown): StoreFailure | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  // Made of an error of our end of the connection; what the store says has no cause.
  return error.code === Code.Internal && error.cause !== undefined ? 'down' : failures[error.code];
}

/** Why a failed call means that the store cannot be used, as a reason for `Ready`; undefined: it has answered this one call. */
export function outageOf(error: unknown): 'PetStoreUnavailable' | 'PetStoreFailed' | undefined {
  const failure = failureOf(error);
  if (failure === 'down') return 'PetStoreUnavailable';
  return failure === 'unusable' ? 'PetStoreFailed' : undefined;
}

/** The store has refused to have a pet: by this request it has none. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
}

/** For calls that add or change a pet: tells a refusal of the pet from one of a search. */
export function whereRefused(error: unknown): never {
  if (failureOf(error) === 'refused' && error instanceof Error) throw new RefusedError(error.message, { cause: error });
  throw error;
}

/**
 * For calls that change a pet: hands over what a store says of one that it does not have. The original says just that it
 * failed, and of one pet that is no outage. Another error is thrown.
 */
export function whereLost(error: unknown): ConnectError {
  const isAnswer = error instanceof ConnectError && failureOf(error) !== 'down';
  if (isAnswer && (error.code === Code.NotFound || error.code === Code.Internal)) return error;
  throw error;
}

/** For sweeps: a store that answers, but cannot be searched, may still be written to. Another error is thrown. */
export function whereUnusable(error: unknown): ConnectError {
  if (error instanceof ConnectError && failureOf(error) === 'unusable') return error;
  throw error;
}
