/** An element; its attributes' and children's text is escaped by {@link text} and here, children are markup. */
export function element(
  name: string,
  attributes: Readonly<Record<string, string | number>>,
  children: readonly string[] = [],
): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(rounded(value))}"`);
  const start = `<${name}${written.join('')}`;
  return children.length === 0 ? `${start}/>` : `${start}>${children.join('')}</${name}>`;
}

type Anchor = 'start' | 'middle' | 'end';

/** A text at a position; y is its baseline. */
export const text = (
  x: number,
  y: number,
  words: string,
  anchor: Anchor = 'start',
  more: Readonly<Record<string, string>> = {},
): string => element('text', { x, y, 'text-anchor': anchor, ...more }, [escaped(words)]);

/** A whole picture. Its background is white whatever the page's color, because its text is dark. */
export function picture(width: number, height: number, title: string, children: readonly string[]): string {
  const attributes = {
    xmlns: 'http://www.w3.org/2000/svg',
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: 'img',
    'font-family': 'system-ui, sans-serif',
    'font-size': 13,
    fill: '#24292f',
  };
  const head = [
    element('title', {}, [escaped(title)]),
    element('rect', { width, height, rx: 6, fill: '#ffffff' }),
    text(16, 26, title, 'start', { 'font-weight': '600', 'font-size': '15' }),
  ];
  return `${element('svg', attributes, ['\n', ...[...head, ...children].map((child) => `${child}\n`)])}\n`;
}

/**
 * The color of each operator, which is the same in all plots. Color-blind readers can distinguish them: the palette of
 * Okabe and Ito.
 */
export const colours: Readonly<Record<string, string>> = {
  echoperator: '#0072b2',
  'controller-runtime': '#e69f00',
  'controller-runtime-ryw': '#f0e442',
  'kube-rs': '#009e73',
  'client-node': '#cc79a7',
  unrecorded: '#d55e00',
  before: '#d55e00',
  ceiling: '#999999',
};

export const otherColour = '#56b4e9';
export const faint = '#d0d7de';

/** A contender's colour and name. */
export const legend = (name: string, x: number, y: number): readonly string[] => [
  element('rect', { x, y, width: 18, height: 6, fill: colours[name] ?? otherColour }),
  text(x + 26, y + 8, name),
];

const rounded = (value: string | number): string =>
  typeof value === 'number' ? String(Math.round(value * 100) / 100) : value;

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escaped = (words: string): string => words.replace(/[&<>"]/g, (character) => escapes[character] ?? character);
