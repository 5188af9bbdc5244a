import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMap, isScalar, type Pair, parseDocument, stringify, type YAMLMap } from 'yaml';
import { chart } from './helm.ts';

/** One value of the chart, as values.yaml documents it. */
export interface DocumentedValue {
  /** `monitoring.port` */
  readonly path: string;
  readonly default: unknown;
  /** The paragraph above it, on one line. */
  readonly description: string;
}

const readme = join(chart, 'README.md');
const begin = '<!-- The table is made of the comments in values.yaml: `node test/chart/values-table.ts` writes it. -->';
const end = '<!-- End of the table. -->';

/**
 * The values that a values.yaml documents, in its order. A key with a comment of its own is a value, whatever is in it;
 * a key without one is a group, and what is in the group has the comments.
 *
 * @throws Error naming a value that has no comment
 */
export function documentedValues(text: string): readonly DocumentedValue[] {
  const document = parseDocument(text);
  if (!isMap(document.contents)) throw new Error('values.yaml has to be a map');
  return valuesOf(document.contents, '');
}

function valuesOf(map: YAMLMap, prefix: string): readonly DocumentedValue[] {
  return map.items.flatMap((pair, index) => {
    const path = `${prefix}${keyOf(pair)}`;
    // The parser gives the comment above a map's first key to the map.
    const above = commentOf(pair) ?? (index === 0 && prefix !== '' ? map.commentBefore : undefined);
    if (above) return [{ path, default: plain(pair.value), description: lastParagraph(above) }];
    if (isMap(pair.value) && pair.value.items.length > 0) return valuesOf(pair.value, `${path}.`);
    throw new Error(`${path} has no comment in values.yaml`);
  });
}

function keyOf({ key }: Pair): string {
  return String(isScalar(key) ? key.value : key);
}

function commentOf({ key }: Pair): string | undefined {
  return (isScalar(key) && key.commentBefore) || undefined;
}

function plain(node: unknown): unknown {
  return isScalar(node) ? node.value : (node as YAMLMap).toJSON();
}

/** Of a comment of several paragraphs the last one is about the key below it. */
function lastParagraph(comment: string): string {
  const lines = comment.split('\n').map((line) => line.trim());
  return lines.slice(lines.lastIndexOf('') + 1).join(' ');
}

/** The table for the README. */
export function valuesTable(values: readonly DocumentedValue[]): string {
  const rows = values.map(({ path, default: value, description }) => {
    const text = stringify(value, { collectionStyle: 'flow', flowCollectionPadding: false, lineWidth: 0 }).trim();
    return `| \`${path}\` | \`${text}\` | ${description.replaceAll('|', '\\|')} |`;
  });
  return ['| value | default | what it is |', '| --- | --- | --- |', ...rows].join('\n');
}

/**
 * The README with the table that these values make.
 *
 * @throws Error if the README has no place for it
 */
export function withTable(markdown: string, values: readonly DocumentedValue[]): string {
  const [from, to] = [markdown.indexOf(begin), markdown.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`README.md has to have the lines ${begin} and ${end}`);
  return `${markdown.slice(0, from + begin.length)}\n\n${valuesTable(values)}\n\n${markdown.slice(to)}`;
}

export const readValues = (): Promise<string> => readFile(join(chart, 'values.yaml'), 'utf8');
export const readReadme = (): Promise<string> => readFile(readme, 'utf8');

if (import.meta.main) {
  await writeFile(readme, withTable(await readReadme(), documentedValues(await readValues())));
}
