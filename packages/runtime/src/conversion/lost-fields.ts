import { isDeepStrictEqual } from 'node:util';
import { getMember, isObject, type JsonObject } from '../apply/json.ts';

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

/** Lists where `content` differs from `left`. A list of another length is one value. */
export function lostFields(left: JsonObject, content: JsonObject, path: readonly string[] = []): readonly LostField[] {
  const names = new Set([...Object.keys(left), ...Object.keys(content)]);
  return [...names].sort().flatMap((name) => {
    const [was, is] = [left[name], content[name]];
    if (isDeepStrictEqual(was, is)) return [];
    const place = [...path, name];
    if (isObject(was) && isObject(is)) return lostFields(was, is, place);
    if (Array.isArray(was) && Array.isArray(is) && was.length === is.length) {
      const items = was.flatMap((item, index) =>
        isDeepStrictEqual(item, is[index]) ? [] : [{ index, was: item, is: is[index] }],
      );
      return [{ path: place, items }];
    }
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

/** Whether a parsed annotation is a list of lost fields. */
export const isLostFields = (value: unknown): value is readonly LostField[] =>
  Array.isArray(value) &&
  value.every(
    (field) =>
      isObject(field) &&
      Array.isArray(field.path) &&
      field.path.every((name) => typeof name === 'string') &&
      (field.items === undefined ||
        (Array.isArray(field.items) && field.items.every((item) => isObject(item) && Number.isInteger(item.index)))),
  );
