/** A request that asks for what the store does not take: it quotes the value. */
export class InvalidRequestError extends Error {
  override readonly name = 'InvalidRequestError';
}

/** An update of pets that the store does not have. */
export class UnknownPetError extends Error {
  override readonly name = 'UnknownPetError';
}

/** A request by the id of another, which was done: it is no word about the pets that are asked for. */
export class RequestIdTakenError extends Error {
  override readonly name = 'RequestIdTakenError';
}

/** More is going on than the store takes at once. */
export class TooBusyError extends Error {
  override readonly name = 'TooBusyError';
}
