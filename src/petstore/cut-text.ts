/** Enough for every message that a person reads, and far below the 64 KiB that a gRPC client accepts as trailers. */
const maxLength = 4096;

/**
 * Cuts a text from outside before it becomes part of an error message: a longer message would fill the log, and its response would close the
 * connection. The result is well-formed, because gRPC cannot encode a lone surrogate.
 */
export const cutText = (text: string): string =>
  text.length <= maxLength
    ? text.toWellFormed()
    : `${text.slice(0, maxLength).toWellFormed()} … (${text.length} characters)`;

/** The text as JSON, cut before it is quoted. */
export const quoted = (text: string): string => JSON.stringify(cutText(text));
