/** Control characters, line separators, and the marks that change the order in which a terminal prints text. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/**
 * Escapes the characters of an external text that control a terminal, as `\u001b`. Line breaks are escaped too, so that
 * a value cannot look like further lines of the output. JSON without line breaks between its tokens stays valid and
 * keeps its meaning.
 */
export const printable = (text: string): string =>
  text.replaceAll(unprintable, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Like {@link printable}, for a text of several lines: a message, or JSON with indentation. */
export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n');
