import { isMap, isScalar, type Pair, parseDocument, stringify, type YAMLMap } from 'yaml';

/** A value of the chart with its documentation in values.yaml. */
export interface DocumentedValue {
  /** For example `monitoring.port`. */
  readonly path: string;
  readonly default: unknown;
  /** The paragraph above the value, on one line. */
  readonly description: string;
}

/**
 * Returns the documented values of a values.yaml, in its order. A key with a comment is a value, even if it is a map. A
 * map without a comment is a group of values.
 *
 * @throws Error that names a value without a comment
 */
export function documentedValues(text: string): readonly DocumentedValue[] {
  const document = parseDocument(text);
  if (!isMap(document.contents)) throw new Error('values.yaml must be a map');
  return valuesOf(document.contents, '');
}

function valuesOf(map: YAMLMap, prefix: string): readonly DocumentedValue[] {
  return map.items.flatMap((pair, index) => {
    const path = `${prefix}${keyOf(pair)}`;
    // The parser attaches the comment above a map's first key to the map.
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

/** The last paragraph of a comment describes the key below it; earlier ones describe the file. */
function lastParagraph(comment: string): string {
  const lines = comment.split('\n').map((line) => line.trim());
  return lines.slice(lines.lastIndexOf('') + 1).join(' ');
}

/** Renders the values as a Markdown table. */
export function valuesTable(values: readonly DocumentedValue[]): string {
  const rows = values.map(({ path, default: value, description }) => {
    const text = stringify(value, { collectionStyle: 'flow', flowCollectionPadding: false, lineWidth: 0 }).trim();
    return `| \`${path}\` | \`${text}\` | ${description.replaceAll('|', '\\|')} |`;
  });
  return ['| value | default | description |', '| --- | --- | --- |', ...rows].map((row) => `${row}\n`).join('');
}
