/** Whether a thrown value shows a programming error: no Error at all, or one that would be a panic in Go. */
export const isDefect = (error: unknown): boolean =>
  !(error instanceof Error) ||
  error instanceof TypeError ||
  error instanceof ReferenceError ||
  error instanceof RangeError;
