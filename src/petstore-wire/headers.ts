/**
 * Names a request that changes something, for all of its attempts: 1 to 200 visible characters of ASCII. A store that
 * remembers it does what is asked once, and answers each further attempt as it answered the first.
 */
export const requestIdHeader = 'request-id';

/**
 * In the answer to a search, from a store that remembers request ids: for how many seconds at the least. A store that does not
 * send it knows nothing of them.
 */
export const requestIdsKeptHeader = 'request-ids-kept-seconds';
