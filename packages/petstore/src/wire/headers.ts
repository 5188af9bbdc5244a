/**
 * The idempotency key of a request that changes something. It is the same for all attempts of the request: 1 to 200
 * visible ASCII characters. A pet store that remembers the id executes the request once, and repeats its first response
 * for every further attempt.
 */
export const requestIdHeader = 'request-id';

/**
 * Response header of a search: for how many seconds, at least, the pet store remembers request ids. The id of an
 * addition is also remembered for as long as a pet that it added exists. A pet store that does not send the header
 * ignores request ids.
 */
export const requestIdsKeptHeader = 'request-ids-kept-seconds';
