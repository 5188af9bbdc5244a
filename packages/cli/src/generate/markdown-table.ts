/** Returns a Markdown table. Each cell is Markdown, on one line: see {@link cellText} for other texts. */
export const markdownTable = (columns: readonly string[], rows: readonly (readonly string[])[]): string =>
  [columns, columns.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |\n`).join('');

/**
 * Returns a text of one line that is safe in a cell: a pipe does not end the cell, and `<` outside of code begins no
 * HTML. Code in backticks stays code.
 */
export const cellText = (text: string): string =>
  text
    .replaceAll(/\s+/g, ' ')
    .trim()
    .replaceAll('|', String.raw`\|`)
    .replaceAll(/`[^`]*`|</g, (found) => (found === '<' ? '&lt;' : found));

/** Returns a text as code for a cell: its backticks do not end the code. */
export function cellCode(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim().replaceAll('|', String.raw`\|`);
  return line.includes('`') ? `\`\` ${line} \`\`` : `\`${line}\``;
}
