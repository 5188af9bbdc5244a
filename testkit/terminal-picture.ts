import { stripVTControlCharacters } from 'node:util';
import { escaped, palette, picture, shades } from './chart-picture.ts';

const columns = 60;
const width = 480;
const left = 16;
const lineHeight = 19;
const glyphWidth = (width - 2 * left) / columns;

/** The colours of the escape sequences that our commands print. */
const colors: Readonly<Record<string, string>> = {
  '31': shades.bad.light,
  '32': shades.good.light,
  '33': palette[1].light,
  '34': palette[0].light,
  '36': palette[0].light,
  '2': shades.quiet.light,
  '90': shades.quiet.light,
};

/** A part of a line in one colour. */
interface Span {
  readonly column: number;
  readonly text: string;
  readonly color: string;
  readonly isBold: boolean;
}

/**
 * Draws a terminal's text as SVG: lines are wrapped, and fit whichever font the reader has.
 *
 * @param title for screen readers.
 * @param text may have escape sequences for colours. A line that starts with `$ ` is a command, and is bold.
 */
export function terminalPicture(title: string, text: string): string {
  const lines = text.trimEnd().split('\n').flatMap(wrapped);
  const elements = lines.flatMap((line, row) =>
    spansOf(line).map(({ column, text: shown, color, isBold }) => {
      const [x, y] = [left + column * glyphWidth, 28 + row * lineHeight].map((value) => Math.round(value * 10) / 10);
      const length = Math.round(shown.length * glyphWidth * 10) / 10;
      return (
        `<text x="${x}" y="${y}" textLength="${length}" lengthAdjust="spacingAndGlyphs" xml:space="preserve" font-family="ui-monospace, monospace" ` +
        `font-size="13" font-weight="${isBold ? 700 : 400}" fill="${color}">${escaped(shown)}</text>`
      );
    }),
  );
  return picture(title, { width, height: 24 + lines.length * lineHeight + 8 }, elements.join('\n'));
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
const sequence = /\u001b\[([\d;]*)m/;

/** The same line, or several that are not wider than the picture. Later ones are indented, and keep the colour. */
function wrapped(line: string): readonly string[] {
  const plain = stripVTControlCharacters(line);
  if (plain.length <= columns) return [line];
  const indent = ' '.repeat(indentOf(plain));
  const lines: string[] = [];
  let current = '';
  let style = '';
  for (const word of line.split(/(?<=\S)(?= )/)) {
    const longer = current + word;
    if (current !== '' && stripVTControlCharacters(longer).length > columns) {
      lines.push(current);
      current = indent + style + word.trimStart();
    } else current = longer;
    style = word.match(new RegExp(sequence, 'g'))?.at(-1) ?? style;
  }
  return [...lines, current];
}

/** Where the other lines of a long line begin: below the text after the time, or else a bit to the right. */
function indentOf(plain: string): number {
  const time = /^[\d:.]+( s)? {2,}/.exec(plain)?.[0];
  return (time ?? /^ */.exec(plain)?.[0] ?? '').length + (time === undefined ? 4 : 2);
}

function spansOf(line: string): readonly Span[] {
  const isCommand = line.startsWith('$ ');
  const spans: Span[] = [];
  let [column, color, isBold] = [0, shades.text.light as string, isCommand];
  // Texts and the numbers of the sequences between them alternate.
  line.split(sequence).forEach((part, index) => {
    if (index % 2 === 1) {
      if (part === '1') isBold = true;
      else color = colors[part] ?? shades.text.light;
      if (part === '0' || part === '22') isBold = isCommand;
      return;
    }
    // An SVG drops spaces at the start.
    const text = part.trimStart();
    if (text !== '') spans.push({ column: column + part.length - text.length, text: text.trimEnd(), color, isBold });
    column += part.length;
  });
  return spans;
}
