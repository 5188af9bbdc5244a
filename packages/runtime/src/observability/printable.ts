/** Control characters, line separators, and the marks that change the order in which a terminal shows text. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/**
 * Escapes the characters of an external text that a terminal acts on instead of showing them, as `\u001b`. Line breaks too, so that a value cannot look
 * like further lines of the output. JSON stays valid, and means the same, as long as it has no line breaks between its tokens.
 */
export const printable = (text: string): string =>
  text.replaceAll(unprintable, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Like {@link printable}, for a text of several lines: a message, or JSON with indentation. */
export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n');
