/** Longer texts from outside are cut. It is enough for every message that a person can use. */
const maxLength = 4096;

/**
 * Cuts a text from outside (a message of the API server, a database or another system) to about 4 kB, and says how long it was. Call it where
 * the text enters, before a pattern, a log line or a condition gets it.
 *
 * The result is well-formed: a surrogate without its pair would be stored as another character, and differ from the desired text for ever.
 */
export const cutText = (text: string): string =>
  text.length <= maxLength
    ? text.toWellFormed()
    : `${text.slice(0, maxLength).toWellFormed()} … (${text.length} characters)`;
