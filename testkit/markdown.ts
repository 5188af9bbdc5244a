/** Parses the parts of Markdown that the tests of the docs need. */

/** A block of code, fenced or indented by four columns. */
export interface CodeBlock {
  /** Empty if the block names none. */
  readonly language: string;
  readonly text: string;
}

const fence = /^( *)```(\w*)\n([\s\S]*?)^\1```$/gm;
const indented = /(?<=\n\n)(?:(?: {4}.*)?\n)+/g;

export function codeBlocks(markdown: string): readonly CodeBlock[] {
  const fenced = [...markdown.matchAll(fence)].map(([, indent = '', language = '', text = '']) => ({
    language,
    text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
  const rest = [...markdown.replaceAll(fence, '').matchAll(indented)].map(([text]) => ({
    language: '',
    text: text.replaceAll(/^ {4}/gm, '').trim(),
  }));
  return [...fenced, ...rest.filter(({ text }) => text !== '')].map(({ language, text }) => ({
    language,
    text: `${text.trimEnd()}\n`,
  }));
}

const withoutCode = (markdown: string): string => markdown.replaceAll(fence, '').replaceAll(/`[^`\n]*`/g, '`');

/** Returns the targets of a page's links, as written. */
export function linksOf(markdown: string): readonly string[] {
  return [...withoutCode(markdown).matchAll(/\]\(([^)\s]+)[^)]*\)/g)].map(([, link = '']) => link);
}

/** Returns the anchors that GitHub generates for a page's headings. */
export function headingAnchors(markdown: string): readonly string[] {
  const seen = new Map<string, number>();
  return [...markdown.replaceAll(fence, '').matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => {
    const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = text.replaceAll(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
    const times = seen.get(anchor) ?? 0;
    seen.set(anchor, times + 1);
    return times === 0 ? anchor : `${anchor}-${times}`;
  });
}

/**
 * Returns the rows of the first table whose header starts with `head`, each cell by its column's name.
 *
 * @throws Error if there is none
 */
export function tableAfter(markdown: string, head: string): readonly Readonly<Record<string, string>>[] {
  const lines = markdown.split('\n');
  const start = lines.findIndex((line) => line.startsWith(head));
  if (start === -1) throw new Error(`there is no table that begins with "${head}"`);
  const columns = cellsOf(lines[start] ?? '');
  const end = lines.findIndex((line, i) => i > start && !line.startsWith('|'));
  return lines.slice(start + 2, end).map((line) => {
    const cells = cellsOf(line);
    if (cells.length !== columns.length) throw new Error(`not ${columns.length} cells: ${line}`);
    return Object.fromEntries(columns.map((column, i) => [column, cells[i] ?? '']));
  });
}

/** Like GitHub, treats a pipe within code as a separator of cells, unless it is escaped. */
const cellsOf = (line: string): readonly string[] =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));

/** Returns the text of a cell that consists only of code. @throws Error for another cell */
export function codeIn(cell: string | undefined): string {
  const [, code] = /^`([^`]+)`$/.exec(cell ?? '') ?? [];
  if (code === undefined) throw new Error(`not code: ${cell}`);
  return code;
}
