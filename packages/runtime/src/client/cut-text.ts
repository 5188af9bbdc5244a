/** Longer external texts are cut. No message that is useful to a person is longer. */
const maxLength = 4096;

/**
 * Cuts an external text (a message of the API server, a database or another system) to about 4 kB, and adds its
 * original length. Call it where the text enters, before the text reaches a pattern, a log line or a condition.
 *
 * The result is well-formed. A surrogate without its pair would be stored as another character, and would differ from
 * the desired text forever. The result is a copy, because a substring would keep the whole text in memory.
 */
export const cutText = (text: string): string =>
  text.length <= maxLength
    ? text.toWellFormed()
    : `${Buffer.from(text.slice(0, maxLength)).toString()} … (${text.length} characters)`;

/** Returns an external text as JSON, for an error message. The text is cut before it is quoted. */
export const quoteText = (text: string): string => JSON.stringify(cutText(text));

/** Applies {@link cutText} in place to the message, the stack and every other text of an error from another system. */
export function cutErrorTexts(error: unknown): void {
  if (!(error instanceof Error)) return;
  const texts = error as unknown as Record<string, unknown>;
  for (const name of Object.getOwnPropertyNames(error)) {
    const text = texts[name];
    if (typeof text === 'string' && text.length > maxLength) texts[name] = cutText(text);
  }
}
