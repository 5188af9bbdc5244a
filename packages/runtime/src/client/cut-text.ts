/** Longer external texts are cut. No message that a person can use is longer. */
const maxLength = 4096;

/**
 * Cuts an external text (a message of the API server, a database or another system) to about 4 kB, and says how long it was. Call it where
 * the text enters, before a pattern, a log line or a condition gets it.
 *
 * The result is well-formed: a surrogate without its pair would be stored as another character, and differ from the desired text for ever. And it
 * is a copy: a part of a text would keep the whole text in memory.
 */
export const cutText = (text: string): string =>
  text.length <= maxLength
    ? text.toWellFormed()
    : `${Buffer.from(text.slice(0, maxLength)).toString()} … (${text.length} characters)`;

/** An external text as JSON, for an error message. It is cut before it is quoted. */
export const quoteText = (text: string): string => JSON.stringify(cutText(text));

/** Applies {@link cutText} to the message, the stack and every other text of an error that another system has worded, in place. */
export function cutErrorTexts(error: unknown): void {
  if (!(error instanceof Error)) return;
  const texts = error as unknown as Record<string, unknown>;
  for (const name of Object.getOwnPropertyNames(error)) {
    const text = texts[name];
    if (typeof text === 'string' && text.length > maxLength) texts[name] = cutText(text);
  }
}
