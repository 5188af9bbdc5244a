/** Whether a thrown value shows a programming error: no Error at all, or one that would be a panic in Go. */
export const isDefect = (error: unknown): boolean =>
  !(error instanceof Error) ||
  (error instanceof TypeError && !isNetworkError(error)) ||
  error instanceof ReferenceError ||
  error instanceof RangeError;

/** `fetch` throws a failure of the network as a TypeError. Its cause has the code: `ECONNREFUSED`, `UND_ERR_SOCKET`. */
const isNetworkError = ({ cause }: TypeError): boolean =>
  cause instanceof Error && !isDefect(cause) && 'code' in cause && typeof cause.code === 'string';
