import { cutText } from '../runtime/client/index.ts';

/**
 * The text of a request as JSON for an error message, cut before it is quoted: a longer message would fill the log, and its response would close
 * the connection.
 */
export const quoted = (text: string): string => JSON.stringify(cutText(text));
