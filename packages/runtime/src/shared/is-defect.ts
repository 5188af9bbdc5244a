/** Whether a thrown value shows a programming error: it is not an Error, or it is one that would be a panic in Go. */
export const isDefect = (error: unknown): boolean =>
  !(error instanceof Error) ||
  (error instanceof TypeError && !isNetworkError(error)) ||
  error instanceof ReferenceError ||
  error instanceof RangeError;

/**
 * `fetch` reports a network failure as a TypeError. Its cause has the code, such as `ECONNREFUSED` or `UND_ERR_SOCKET`.
 */
const isNetworkError = ({ cause }: TypeError): boolean =>
  cause instanceof Error && !isDefect(cause) && 'code' in cause && typeof cause.code === 'string';
