import { builtInTypes } from './built-in-types.ts';
import { isObject, type JsonObject, member } from './json.ts';
import { equalQuantities } from './quantity.ts';
import { type ListKey, type ListOf, type MapOf, type Schema, type Struct, unknown } from './schema.ts';

/**
 * Where the stored value says something else than the wanted one (`.spec.replicas`), or undefined where it says all
 * that is wanted. What is stored beyond that does not count: defaults of the server, fields of others.
 *
 * - Objects are compared by key, but an atomic map (a Service's selector) whole.
 * - Lists are compared by their merge keys or as sets, in the order wanted; an atomic list has just the wanted items,
 *   and an item may have more fields, for the server's defaults.
 * - Quantities are compared by value. An int-or-string is not: the API server keeps 80 and "80" apart.
 * - undefined and null are not wanted. A false, 0, '' or empty list or map that the server would not store may be absent.
 */
export function firstDifference(wanted: unknown, stored: unknown, schema: Schema): string | undefined {
  return differs(wanted, stored, schema, false);
}

function differs(wanted: unknown, stored: unknown, schema: Schema, atomic: boolean): string | undefined {
  if (wanted === stored || isAbsent(wanted)) return undefined;
  const known = resolved(schema);
  switch (known.type) {
    case 'scalar':
      if (typeof wanted === 'object') return differs(wanted, stored, unknown, atomic);
      return !known.keepsZero && stored === undefined && isZero(wanted) ? undefined : '';
    case 'quantity':
      return equalQuantities(wanted, stored) ? undefined : '';
    case 'list':
      return Array.isArray(wanted) ? listDiffers(wanted, stored, known, atomic) : '';
    case 'map':
      return isObject(wanted) ? mapDiffers(wanted, stored, known, atomic || known.atomic === true) : '';
    case 'struct':
      return isObject(wanted) ? structDiffers(wanted, stored, known, atomic || known.atomic === true) : '';
    case 'unknown':
      if (Array.isArray(wanted)) return listDiffers(wanted, stored, unknownList, atomic);
      return isObject(wanted) ? mapDiffers(wanted, stored, unknownMap, atomic) : '';
  }
}

/** What a field of a struct is. */
export function fieldOf(struct: Struct, name: string): Schema {
  return (Object.hasOwn(struct.fields, name) ? struct.fields[name] : undefined) ?? struct.others;
}

/** The schema itself, for one that stands for a type by name. */
export function resolved(schema: Schema): Exclude<Schema, { readonly type: 'ref' }> {
  const known = schema.type === 'ref' ? (builtInTypes[schema.name] ?? unknown) : schema;
  // A name stands for a struct, never for another name.
  return known.type === 'ref' ? { type: 'unknown' } : known;
}

const unknownList: ListOf = { type: 'list', merge: 'atomic', items: unknown, emptyIsAbsent: false };
const unknownMap: MapOf = { type: 'map', values: unknown, emptyIsAbsent: false };

function structDiffers(wanted: JsonObject, stored: unknown, struct: Struct, atomic: boolean): string | undefined {
  if (!isObject(stored)) return '';
  for (const name in wanted) {
    const within = differs(wanted[name], member(stored, name), fieldOf(struct, name), atomic);
    if (within !== undefined) return `.${name}${within}`;
  }
  return undefined;
}

function mapDiffers(wanted: JsonObject, stored: unknown, map: MapOf, atomic: boolean): string | undefined {
  if (stored === undefined && map.emptyIsAbsent) return isWithoutValues(wanted) ? undefined : '';
  if (!isObject(stored)) return '';
  for (const key in wanted) {
    const within = differs(wanted[key], member(stored, key), map.values, atomic);
    if (within !== undefined) return `[${key}]${within}`;
  }
  // A struct's fields may have been added by the server; keys of a map have not.
  if (atomic && map !== unknownMap) {
    for (const key in stored) if (isAbsent(member(wanted, key))) return `[${key}]`;
  }
  return undefined;
}

function listDiffers(wanted: readonly unknown[], stored: unknown, list: ListOf, atomic: boolean): string | undefined {
  if (stored === undefined && list.emptyIsAbsent) return wanted.length === 0 ? undefined : '';
  if (!Array.isArray(stored)) return '';
  if (atomic || list.merge === 'atomic') return wholeListDiffers(wanted, stored, list.items);
  return mergedListDiffers(wanted, stored, list.items, list.merge);
}

function wholeListDiffers(wanted: readonly unknown[], stored: readonly unknown[], items: Schema): string | undefined {
  if (wanted.length !== stored.length) return '';
  for (let index = 0; index < wanted.length; index += 1) {
    const within = differs(wanted[index], stored[index], items, true);
    if (within !== undefined) return `[${index}]${within}`;
  }
  return undefined;
}

/** An apply puts its items into the order that it has them in, so out of order is a difference. */
function mergedListDiffers(
  wanted: readonly unknown[],
  stored: readonly unknown[],
  items: Schema,
  merge: 'set' | readonly ListKey[],
): string | undefined {
  let next = 0;
  for (const item of wanted) {
    while (next < stored.length && !isSameItem(item, stored[next], merge)) next += 1;
    if (next === stored.length) return `[${itemName(item, merge)}]`;
    const within = merge === 'set' ? undefined : differs(item, stored[next], items, false);
    if (within !== undefined) return `[${itemName(item, merge)}]${within}`;
    next += 1;
  }
  return undefined;
}

function isSameItem(a: unknown, b: unknown, merge: 'set' | readonly ListKey[]): boolean {
  if (merge === 'set') return a === b;
  if (!isObject(a) || !isObject(b)) return false;
  return merge.every((key) => (a[key.name] ?? key.default) === (b[key.name] ?? key.default));
}

/** By what an item of a merged list is known: its value, or those of its keys. */
export function itemName(item: unknown, merge: 'set' | readonly ListKey[]): string {
  if (merge === 'set' || !isObject(item)) return String(item);
  return merge.map((key) => String(item[key.name] ?? key.default)).join('/');
}

const isZero = (value: unknown): boolean => value === '' || value === 0 || value === false;

const isAbsent = (value: unknown): value is undefined | null => value === undefined || value === null;

const isWithoutValues = (map: JsonObject): boolean => Object.values(map).every(isAbsent);
