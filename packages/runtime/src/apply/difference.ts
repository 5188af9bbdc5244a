import { mayBeRounded } from '../kind/define-kind.ts';
import { builtInTypes } from './built-in-types.ts';
import { getOwn, isObject, type JsonObject } from './json.ts';
import { equalQuantities } from './quantity.ts';
import { granular, type ListKey, type ListOf, type MapOf, type Schema, type Struct, schemaless } from './schema.ts';

/** A field whose stored value differs from the desired value. */
export interface Difference {
  /** `.spec.replicas`, `.metadata.labels[app]`. Brackets within brackets are escaped. */
  readonly path: string;
  readonly stored: unknown;
  /**
   * Whether the field is not desired, but an apply would or might remove it because it is within an atomic field. The
   * field may be drift, a default of the server, or another manager's. Only an apply can determine which.
   */
  readonly isSurplus: boolean;
}

/**
 * Finds the fields that an apply of the desired value might change; empty if it would change nothing. Additional fields
 * in the stored value count only if an apply would remove them.
 *
 * - Objects are compared by key. Within an atomic object (a label selector), and where the schema is unknown, a key
 *   that is not desired is surplus.
 * - Lists are compared by merge key or as sets, in the desired order. An atomic list must have exactly the desired
 *   items, and everything in it is atomic too.
 * - Quantities are compared by value. An int-or-string is not: the API server distinguishes 80 from "80".
 * - An integer that may have been rounded equals no other. The client refuses to send it, and the owner can report
 *   that.
 * - undefined and null mean "not desired". A desired false, 0, '', empty list or empty map matches an absent field if
 *   the server does not store such a value.
 */
export function differencesOf(desired: unknown, stored: unknown, schema: Schema): readonly Difference[] {
  return compare(desired, stored, schema, false) ?? none;
}

const none: readonly Difference[] = [];

/** Undefined if nothing differs, so that comparing equal objects allocates nothing. */
type Differences = Difference[] | undefined;

function compare(desired: unknown, stored: unknown, schema: Schema, isAtomic: boolean): Differences {
  if (desired === stored) return typeof desired === 'number' && mayBeRounded(desired) ? mismatch(stored) : undefined;
  if (isAbsent(desired)) return undefined;
  const resolved = resolve(schema);
  switch (resolved.type) {
    case 'scalar':
      if (typeof desired === 'object') return compare(desired, stored, schemaless, isAtomic);
      return !resolved.keepsZero && stored === undefined && isZero(desired) ? undefined : mismatch(stored);
    case 'quantity':
      return equalQuantities(desired, stored) ? undefined : mismatch(stored);
    case 'list':
      return Array.isArray(desired) ? compareList(desired, stored, resolved, isAtomic) : mismatch(stored);
    case 'map':
      return isObject(desired)
        ? compareMap(desired, stored, resolved, isAtomic || resolved.atomic === true)
        : mismatch(stored);
    case 'struct':
      return isObject(desired)
        ? compareStruct(desired, stored, resolved, isAtomic || resolved.atomic === true)
        : mismatch(stored);
    case 'schemaless':
      if (Array.isArray(desired)) return compareList(desired, stored, schemalessList, isAtomic);
      if (!isObject(desired)) return mismatch(stored);
      if (resolved.isGranular) return compareMap(desired, stored, granularMap, isAtomic);
      // The map may be atomic. A needless apply is better than undetected drift.
      return compareMap(desired, stored, schemalessMap, true);
  }
}

const mismatch = (stored: unknown, path = ''): Differences => [{ path, stored, isSurplus: false }];

/** Returns the schema of a field. */
export function fieldSchema(struct: Struct, name: string): Schema {
  return (Object.hasOwn(struct.fields, name) ? struct.fields[name] : undefined) ?? struct.others;
}

/** Replaces a reference by the schema that it names. */
export function resolve(schema: Schema): Exclude<Schema, { readonly type: 'ref' }> {
  const known = schema.type === 'ref' ? (builtInTypes[schema.name] ?? schemaless) : schema;
  // A reference never names another reference.
  return known.type === 'ref' ? schemaless : known;
}

const schemalessList: ListOf = { type: 'list', merge: 'atomic', items: schemaless, emptyIsAbsent: false };
const schemalessMap: MapOf = { type: 'map', values: schemaless, emptyIsAbsent: false };
const granularMap: MapOf = { type: 'map', values: granular, emptyIsAbsent: false };

function compareStruct(desired: JsonObject, stored: unknown, struct: Struct, isAtomic: boolean): Differences {
  if (!isObject(stored)) return mismatch(stored);
  let found: Differences;
  for (const name in desired) {
    const nested = compare(desired[name], getOwn(stored, name), fieldSchema(struct, name), isAtomic);
    if (nested !== undefined) found = append(found, `.${name}`, nested);
  }
  if (!isAtomic) return found;
  const surplus = findSurplus(desired, stored, (name) => `.${name}`);
  return append(found, '', surplus);
}

function compareMap(desired: JsonObject, stored: unknown, map: MapOf, isAtomic: boolean): Differences {
  if (stored === undefined && map.emptyIsAbsent) return hasNoValues(desired) ? undefined : mismatch(stored);
  if (!isObject(stored)) return mismatch(stored);
  let found: Differences;
  for (const key in desired) {
    const nested = compare(desired[key], getOwn(stored, key), map.values, isAtomic);
    if (nested !== undefined) found = append(found, inBrackets(key), nested);
  }
  if (!isAtomic) return found;
  const surplus = findSurplus(desired, stored, inBrackets);
  return append(found, '', surplus);
}

function findSurplus(desired: JsonObject, stored: JsonObject, pathOf: (name: string) => string): Differences {
  let found: Difference[] | undefined;
  for (const name in stored) {
    if (isAbsent(stored[name]) || !isAbsent(getOwn(desired, name))) continue;
    found ??= [];
    found.push({ path: pathOf(name), stored: stored[name], isSurplus: true });
  }
  return found;
}

function compareList(desired: readonly unknown[], stored: unknown, list: ListOf, isAtomic: boolean): Differences {
  if (stored === undefined && list.emptyIsAbsent) return desired.length === 0 ? undefined : mismatch(stored);
  if (!Array.isArray(stored)) return mismatch(stored);
  if (isAtomic || list.merge === 'atomic') return compareAtomicList(desired, stored, list.items);
  return compareMergedList(desired, stored, list.items, list.merge);
}

function compareAtomicList(desired: readonly unknown[], stored: readonly unknown[], items: Schema): Differences {
  if (desired.length !== stored.length) return mismatch(stored);
  let found: Differences;
  for (let index = 0; index < desired.length; index += 1) {
    const nested = compare(desired[index], stored[index], items, true);
    if (nested !== undefined) found = append(found, `[${index}]`, nested);
  }
  return found;
}

/** An apply sorts its items into their desired order, so another order is a difference. */
function compareMergedList(
  desired: readonly unknown[],
  stored: readonly unknown[],
  items: Schema,
  merge: 'set' | readonly ListKey[],
): Differences {
  let found: Differences;
  let next = 0;
  for (const item of desired) {
    while (next < stored.length && !isSameItem(item, stored[next], merge)) next += 1;
    if (next === stored.length) return append(found, '', mismatch(stored, inBrackets(itemKey(item, merge))));
    const nested = merge === 'set' ? undefined : compare(item, stored[next], items, false);
    if (nested !== undefined) found = append(found, inBrackets(itemKey(item, merge)), nested);
    next += 1;
  }
  // Two stored items with one key make the stored list longer, or an item missing above.
  const duplicate = stored.length === desired.length ? undefined : findDuplicate(desired, stored, merge);
  return duplicate === undefined ? found : append(found, '', mismatch(stored, inBrackets(itemKey(duplicate, merge))));
}

/**
 * Finds a desired item whose key belongs to two stored items. An update, unlike an apply, can store that (two `env`
 * with one name; the last one wins).
 */
function findDuplicate(
  desired: readonly unknown[],
  stored: readonly unknown[],
  merge: 'set' | readonly ListKey[],
): unknown {
  const counts = new Map<unknown, number>();
  for (const item of stored) {
    const id = identityOf(item, merge);
    counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return desired.find((item) => (counts.get(identityOf(item, merge)) ?? 0) > 1);
}

/**
 * The identities of two items are equal exactly if {@link isSameItem} is true. An item without keys equals no other.
 */
function identityOf(item: unknown, merge: 'set' | readonly ListKey[]): unknown {
  if (merge === 'set' || !isObject(item)) return item;
  return JSON.stringify(merge.map((key) => item[key.name] ?? key.default));
}

/** Appends nested differences, with their paths prefixed. Changes `before`, which belongs to the caller. */
function append(before: Differences, path: string, nested: Differences): Differences {
  if (nested === undefined) return before;
  const all = before ?? [];
  for (const each of nested) all.push(path === '' ? each : { ...each, path: `${path}${each.path}` });
  return all;
}

function isSameItem(a: unknown, b: unknown, merge: 'set' | readonly ListKey[]): boolean {
  if (merge === 'set') return a === b;
  if (!isObject(a) || !isObject(b)) return false;
  for (const key of merge) if ((a[key.name] ?? key.default) !== (b[key.name] ?? key.default)) return false;
  return true;
}

/** Identifies an item of a merged list: the values of its keys, or for a set its value. */
export function itemKey(item: unknown, merge: 'set' | readonly ListKey[]): string {
  if (merge === 'set' || !isObject(item)) return String(item);
  return merge.map((key) => String(item[key.name] ?? key.default)).join('/');
}

/** Escapes characters that could be mistaken for the end of the key. */
const inBrackets = (key: string): string => `[${key.replace(/[[\]%]/g, encodeURIComponent)}]`;

const isZero = (value: unknown): boolean => value === '' || value === 0 || value === false;

const isAbsent = (value: unknown): value is undefined | null => value === undefined || value === null;

const hasNoValues = (map: JsonObject): boolean => Object.values(map).every(isAbsent);
