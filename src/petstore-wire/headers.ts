/**
 * The idempotency key of a request that changes something, the same for all of its attempts: 1 to 200 visible ASCII characters.
 * A pet store that remembers the id carries the request out once, and repeats its first answer to every further attempt.
 */
export const requestIdHeader = 'request-id';

/**
 * Response header of a search: for how many seconds, at least, the pet store remembers request ids. A pet store that does not
 * send it ignores request ids.
 */
export const requestIdsKeptHeader = 'request-ids-kept-seconds';
