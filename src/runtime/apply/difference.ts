import { builtInTypes } from './built-in-types.ts';
import { isObject, type JsonObject, own } from './json.ts';
import { equalQuantities } from './quantity.ts';
import { type ListKey, type ListOf, type MapOf, type Schema, type Struct, unknown } from './schema.ts';

/** A field whose stored value is not the wanted one. */
export interface Difference {
  /** `.spec.replicas` */
  readonly path: string;
  readonly stored: unknown;
  /**
   * Nothing is wanted there, but an apply would remove it, for what is around it is atomic. It is drift, or a default of
   * the server: only an apply can tell.
   */
  readonly isSurplus: boolean;
}

/**
 * Where an apply of the wanted value might change the stored one; empty where it cannot. Fields that the stored value has
 * beyond the wanted ones count only where an apply would remove them.
 *
 * - Objects are compared by key; within an atomic one (a label selector) a key that is not wanted is surplus.
 * - Lists are compared by their merge keys or as sets, in the order wanted. An atomic list has just the wanted items, and
 *   is atomic all the way down.
 * - Quantities are compared by value. An int-or-string is not: the API server keeps 80 and "80" apart.
 * - undefined and null are not wanted. A false, 0, '' or empty list or map that the server would not store may be absent.
 */
export function differencesOf(wanted: unknown, stored: unknown, schema: Schema): readonly Difference[] {
  return differs(wanted, stored, schema, false) ?? none;
}

const none: readonly Difference[] = [];

/** undefined where nothing differs, so that comparing an object that is as wanted allocates nothing. */
type Differences = readonly Difference[] | undefined;

function differs(wanted: unknown, stored: unknown, schema: Schema, atomic: boolean): Differences {
  if (wanted === stored || isAbsent(wanted)) return undefined;
  const known = resolved(schema);
  switch (known.type) {
    case 'scalar':
      if (typeof wanted === 'object') return differs(wanted, stored, unknown, atomic);
      return !known.keepsZero && stored === undefined && isZero(wanted) ? undefined : other(stored);
    case 'quantity':
      return equalQuantities(wanted, stored) ? undefined : other(stored);
    case 'list':
      return Array.isArray(wanted) ? listDiffers(wanted, stored, known, atomic) : other(stored);
    case 'map':
      return isObject(wanted) ? mapDiffers(wanted, stored, known, atomic || known.atomic === true) : other(stored);
    case 'struct':
      return isObject(wanted) ? structDiffers(wanted, stored, known, atomic || known.atomic === true) : other(stored);
    case 'unknown':
      if (Array.isArray(wanted)) return listDiffers(wanted, stored, unknownList, atomic);
      return isObject(wanted) ? mapDiffers(wanted, stored, unknownMap, atomic) : other(stored);
  }
}

const other = (stored: unknown, path = ''): Differences => [{ path, stored, isSurplus: false }];

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

function structDiffers(wanted: JsonObject, stored: unknown, struct: Struct, atomic: boolean): Differences {
  if (!isObject(stored)) return other(stored);
  let found: Differences;
  for (const name in wanted) {
    const within = differs(wanted[name], own(stored, name), fieldOf(struct, name), atomic);
    if (within !== undefined) found = joined(found, `.${name}`, within);
  }
  return atomic
    ? joined(
        found,
        '',
        surplus(wanted, stored, (name) => `.${name}`),
      )
    : found;
}

function mapDiffers(wanted: JsonObject, stored: unknown, map: MapOf, atomic: boolean): Differences {
  if (stored === undefined && map.emptyIsAbsent) return isWithoutValues(wanted) ? undefined : other(stored);
  if (!isObject(stored)) return other(stored);
  let found: Differences;
  for (const key in wanted) {
    const within = differs(wanted[key], own(stored, key), map.values, atomic);
    if (within !== undefined) found = joined(found, `[${key}]`, within);
  }
  return atomic
    ? joined(
        found,
        '',
        surplus(wanted, stored, (key) => `[${key}]`),
      )
    : found;
}

function surplus(wanted: JsonObject, stored: JsonObject, pathOf: (name: string) => string): Differences {
  let found: Difference[] | undefined;
  for (const name in stored) {
    if (isAbsent(stored[name]) || !isAbsent(own(wanted, name))) continue;
    found ??= [];
    found.push({ path: pathOf(name), stored: stored[name], isSurplus: true });
  }
  return found;
}

function listDiffers(wanted: readonly unknown[], stored: unknown, list: ListOf, atomic: boolean): Differences {
  if (stored === undefined && list.emptyIsAbsent) return wanted.length === 0 ? undefined : other(stored);
  if (!Array.isArray(stored)) return other(stored);
  if (atomic || list.merge === 'atomic') return wholeListDiffers(wanted, stored, list.items);
  return mergedListDiffers(wanted, stored, list.items, list.merge);
}

function wholeListDiffers(wanted: readonly unknown[], stored: readonly unknown[], items: Schema): Differences {
  if (wanted.length !== stored.length) return other(stored);
  let found: Differences;
  for (let index = 0; index < wanted.length; index += 1) {
    const within = differs(wanted[index], stored[index], items, true);
    if (within !== undefined) found = joined(found, `[${index}]`, within);
  }
  return found;
}

/** An apply puts its items into the order that it has them in, so out of order is a difference. */
function mergedListDiffers(
  wanted: readonly unknown[],
  stored: readonly unknown[],
  items: Schema,
  merge: 'set' | readonly ListKey[],
): Differences {
  let found: Differences;
  let next = 0;
  for (const item of wanted) {
    while (next < stored.length && !isSameItem(item, stored[next], merge)) next += 1;
    if (next === stored.length) return joined(found, '', other(stored, `[${itemName(item, merge)}]`));
    const within = merge === 'set' ? undefined : differs(item, stored[next], items, false);
    if (within !== undefined) found = joined(found, `[${itemName(item, merge)}]`, within);
    next += 1;
  }
  const twice = stored.length === wanted.length ? undefined : wanted.find((item) => isTwice(item, stored, merge));
  return twice === undefined ? found : joined(found, '', other(stored, `[${itemName(twice, merge)}]`));
}

/** An update, unlike an apply, may leave two items with the same key (two `env` of one name, of which the last holds). */
function isTwice(item: unknown, stored: readonly unknown[], merge: 'set' | readonly ListKey[]): boolean {
  let times = 0;
  for (const other of stored) if (isSameItem(item, other, merge)) times += 1;
  return times > 1;
}

function joined(before: Differences, path: string, within: Differences): Differences {
  if (within === undefined) return before;
  const added = path === '' ? within : within.map((one) => ({ ...one, path: `${path}${one.path}` }));
  return before === undefined ? added : [...before, ...added];
}

function isSameItem(a: unknown, b: unknown, merge: 'set' | readonly ListKey[]): boolean {
  if (merge === 'set') return a === b;
  if (!isObject(a) || !isObject(b)) return false;
  for (const key of merge) if ((a[key.name] ?? key.default) !== (b[key.name] ?? key.default)) return false;
  return true;
}

/** By what an item of a merged list is known: its value, or those of its keys. */
export function itemName(item: unknown, merge: 'set' | readonly ListKey[]): string {
  if (merge === 'set' || !isObject(item)) return String(item);
  return merge.map((key) => String(item[key.name] ?? key.default)).join('/');
}

const isZero = (value: unknown): boolean => value === '' || value === 0 || value === false;

const isAbsent = (value: unknown): value is undefined | null => value === undefined || value === null;

const isWithoutValues = (map: JsonObject): boolean => Object.values(map).every(isAbsent);
