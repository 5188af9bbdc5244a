/** An invalid request. The message names the field and the value. */
export class InvalidRequestError extends Error {
  override readonly name = 'InvalidRequestError';
}

/** An update of a pet that does not exist. */
export class UnknownPetError extends Error {
  override readonly name = 'UnknownPetError';
}

/** A request reuses the id of a different request. The error says nothing about the pets of the request. */
export class RequestIdTakenError extends Error {
  override readonly name = 'RequestIdTakenError';
}

/** Too many searches run at once. */
export class TooBusyError extends Error {
  override readonly name = 'TooBusyError';
}
