import type { FieldChange } from './plan.ts';

/** The most characters of a value, of a path, and of all fields of a write. A plan has to fit into memory. */
const maxValueLength = 1000;
const maxPathLength = 1000;
const maxFieldsLength = 16_000;
/** How much an excerpt shows before the first difference. */
const contextLength = 20;

/**
 * The fields that a plan shows of a write, as far as they fit. They share no memory with the objects.
 *
 * @param isSecret whether a value must not be shown.
 * @returns the fields, and how many are left out.
 */
export function shownFields(
  changes: readonly FieldChange[],
  isSecret: (value: unknown) => boolean,
): { readonly fields: readonly FieldChange[]; readonly rest: number } {
  const fields: FieldChange[] = [];
  let length = 0;
  for (const change of changes) {
    const text = JSON.stringify(shownField(change, isSecret));
    length += text.length;
    if (length > maxFieldsLength && fields.length > 0) break;
    // A part of a string keeps the whole string in memory, but a parsed string is a copy.
    fields.push(JSON.parse(text));
  }
  return { fields, rest: changes.length - fields.length };
}

function shownField(change: FieldChange, isSecret: (value: unknown) => boolean): FieldChange {
  const { path, ...values } = change;
  const isHidden = isSecret(change.before) || isSecret(change.after);
  return { path: excerpt(path, maxPathLength), ...(!isHidden && excerpts(values, maxValueLength)) };
}

/**
 * Both values of a field, with at most about `maxLength` characters each. An excerpt of a text begins shortly before
 * the first difference. Another value that is longer becomes the beginning of its JSON.
 */
export function excerpts(values: Omit<FieldChange, 'path'>, maxLength: number): Omit<FieldChange, 'path'> {
  const { before, after } = values;
  const same = typeof before === 'string' && typeof after === 'string' ? commonPrefixLength(before, after) : 0;
  const start = Math.max(0, same - contextLength);
  const cut = (value: unknown) => {
    if (typeof value === 'string') return excerpt(value, maxLength, start);
    const text = JSON.stringify(value);
    return text.length > maxLength ? excerpt(text, maxLength) : value;
  };
  return { ...('before' in values && { before: cut(before) }), ...('after' in values && { after: cut(after) }) };
}

/** At most `maxLength` characters of a text. `…` stands for what is left out. */
export function excerpt(text: string, maxLength: number, start = 0): string {
  if (text.length <= maxLength) return text;
  const end = start + maxLength;
  return `${start > 0 ? '…' : ''}${text.slice(start, end)}${end < text.length ? '…' : ''}`;
}

function commonPrefixLength(one: string, other: string): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length += 1;
  return length;
}
