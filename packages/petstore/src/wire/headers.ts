/**
 * The idempotency key of a request that changes something, the same for all of its attempts: 1 to 200 visible ASCII characters.
 * A pet store that remembers the id carries the request out once, and repeats its first answer to every further attempt.
 */
export const requestIdHeader = 'request-id';

/**
 * Response header of a search: for how many seconds, at least, the pet store remembers request ids. It remembers the id of an addition
 * also for as long as a pet of it exists. A pet store that does not send the header ignores request ids.
 */
export const requestIdsKeptHeader = 'request-ids-kept-seconds';
