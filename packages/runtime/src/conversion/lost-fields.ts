import { isDeepStrictEqual } from 'node:util';
import { getMember, getOwn, isObject, type JsonObject } from '../apply/json.ts';

/**
 * A place where content differs from what is left of it after a conversion to another version and back. Absent values
 * are absent members.
 */
export type LostField = {
  /** The names that lead to the value: `['spec', 'greeting']`. */
  readonly path: readonly string[];
} & (
  | {
      /** What is left. */
      readonly was?: unknown;
      /** The value of the content. */
      readonly is?: unknown;
    }
  | {
      /** Items of a list that has kept its length. They are found by their content if they have changed places. */
      readonly items: readonly LostItem[];
    }
);

interface LostItem {
  readonly index: number;
  readonly was: unknown;
  readonly is: unknown;
}

/**
 * Lists where `content` differs from `left`, in the order of the paths. No path is the beginning of another one. A list
 * of another length is one value.
 */
export function lostFields(left: JsonObject, content: JsonObject, path: readonly string[] = []): readonly LostField[] {
  const names = new Set([...Object.keys(left), ...Object.keys(content)]);
  return [...names].sort().flatMap((name) => {
    const [was, is] = [getOwn(left, name), getOwn(content, name)];
    const place = [...path, name];
    // Objects are compared only here and not as a whole, so that each value is compared once, at any depth.
    if (isObject(was) && isObject(is)) return lostFields(was, is, place);
    if (Array.isArray(was) && Array.isArray(is) && was.length === is.length) {
      const items = was.flatMap((item, index) =>
        isDeepStrictEqual(item, is[index]) ? [] : [{ index, was: item, is: is[index] }],
      );
      return items.length === 0 ? [] : [{ path: place, items }];
    }
    if (isDeepStrictEqual(was, is)) return [];
    return [{ path: place, ...(was !== undefined && { was }), ...(is !== undefined && { is }) }];
  });
}

/**
 * Returns the content with its lost fields, of which those stay that somebody has changed meanwhile: a value that is no
 * longer what was left.
 */
export function withLostFields(content: JsonObject, lost: readonly LostField[]): JsonObject {
  const result = copyOf(content);
  for (const field of lost) {
    const { path } = field;
    const [last] = path.slice(-1);
    const parent = path.slice(0, -1).reduce<unknown>(getMember, result);
    if (last === undefined || !isObject(parent)) continue;
    const current = getMember(parent, last);
    if ('items' in field) setMember(parent, last, withItems(current, field.items));
    else if (isDeepStrictEqual(current, field.was)) setMember(parent, last, copyOf(field.is));
  }
  return result;
}

/** Defines the member: the path comes from an annotation, which anybody may have written, and may be `__proto__`. */
function setMember(object: JsonObject, name: string, value: unknown): void {
  if (value === undefined) Reflect.deleteProperty(object, name);
  else Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

function withItems(list: unknown, items: readonly LostItem[]): unknown {
  if (!Array.isArray(list)) return list;
  const result: unknown[] = [...list];
  const taken = new Set<number>();
  const moved: LostItem[] = [];
  for (const item of items) {
    if (!isDeepStrictEqual(list[item.index], item.was)) moved.push(item);
    else {
      taken.add(item.index);
      result[item.index] = copyOf(item.is);
    }
  }
  if (moved.length === 0) return result;
  const places = new Map<string, number[]>();
  for (const [index, value] of list.entries()) {
    if (taken.has(index)) continue;
    const text = sortedJson(value);
    const found = places.get(text);
    if (found === undefined) places.set(text, [index]);
    else found.push(index);
  }
  for (const { was, is } of moved) {
    const index = places.get(sortedJson(was))?.shift();
    if (index !== undefined) result[index] = copyOf(is);
  }
  return result;
}

const copyOf = <T>(value: T): T => (value === undefined ? value : JSON.parse(JSON.stringify(value)));

/** JSON in which the order of members does not matter. */
const sortedJson = (value: unknown): string =>
  JSON.stringify(value, (_, member) =>
    isObject(member) ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member,
  ) ?? '';

/**
 * Whether a parsed annotation is a list that {@link lostFields} can have returned. Anybody may write the annotation.
 * The order excludes a list that names the same place many times, for which {@link withLostFields} would take minutes.
 */
export const isLostFields = (value: unknown): value is readonly LostField[] =>
  Array.isArray(value) &&
  value.every(isLostField) &&
  value.every(({ path }, index) => index === 0 || isBefore(value[index - 1]?.path ?? [], path));

const isLostField = (field: unknown): field is LostField =>
  isObject(field) &&
  Array.isArray(field.path) &&
  field.path.length > 0 &&
  field.path.every((name) => typeof name === 'string') &&
  (field.items === undefined || isLostItems(field.items));

const isLostItems = (items: unknown): items is readonly LostItem[] =>
  Array.isArray(items) &&
  items.every((item) => isObject(item) && Number.isInteger(item.index)) &&
  items.every(({ index }, position) => position === 0 || items[position - 1].index < index);

/** Whether a path comes before another one and is not its beginning. */
function isBefore(path: readonly string[], next: readonly string[]): boolean {
  const at = path.findIndex((name, index) => name !== next[index]);
  const [name, following] = [path[at], next[at]];
  return name !== undefined && following !== undefined && name < following;
}
