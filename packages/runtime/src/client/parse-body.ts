import type { KubeObject } from '../kind/object.ts';
import { makeUnreadable } from '../kind/unreadable-object.ts';

/**
 * How many levels the value of an object's member may be nested. The API server accepts 10,000. Recursive functions,
 * including Node's own (`isDeepStrictEqual`, `structuredClone`), overflow V8's stack at about 5,000. Kubernetes' own
 * kinds need less than 40.
 */
export const maxNesting = 500;

type Members = Record<string, unknown>;

/**
 * Parses the JSON text of an object, a list or an event of a watch. The result is nested at most {@link maxNesting}
 * levels below the members of each object, which every recursive function relies on. A deeper member of an object
 * cannot be read; see {@link makeUnreadable}. Deep `managedFields` are dropped, because they mirror another member.
 *
 * @throws SyntaxError if the text is not JSON.
 */
export function parseBody(text: string): unknown {
  const body: unknown = JSON.parse(text);
  if (isObject(body) && mayBeDeep(text)) limitDepth(body);
  return body;
}

/**
 * Whether the text has more brackets than the allowed levels. This cheap test is false for almost every single object.
 */
function mayBeDeep(text: string): boolean {
  let count = 0;
  for (const bracket of ['{', '[']) {
    for (let index = text.indexOf(bracket); index !== -1; index = text.indexOf(bracket, index + 1)) {
      count += 1;
      if (count > maxNesting) return true;
    }
  }
  return false;
}

function limitDepth(body: Members): void {
  for (const object of objectsOf(body)) if (isObject(object)) limitObjectDepth(object);
}

/** The object of an event of a watch, the items of a list, or the object itself. The metadata of a list has no uid. */
function objectsOf(body: Members): readonly unknown[] {
  const { type, object, items, metadata } = body;
  if (typeof type === 'string' && isObject(object) && metadata === undefined) return [object];
  return Array.isArray(items) && !(isObject(metadata) && 'uid' in metadata) ? items : [body];
}

function limitObjectDepth(object: Members): void {
  const { metadata } = object;
  if (isObject(metadata) && isTooDeep(metadata)) {
    for (const name of Object.keys(metadata)) if (isTooDeep(metadata[name])) delete metadata[name];
  }
  const deep = Object.keys(object).filter((member) => member !== 'metadata' && isTooDeep(object[member]));
  if (deep.length === 0) return;
  // A Status has no name that an error could contain.
  if (!isObject(metadata)) for (const member of deep) delete object[member];
  else makeUnreadable(object as unknown as KubeObject, deep, `nested more than ${maxNesting} levels deep`);
}

/** Whether a value is nested more than {@link maxNesting} levels deep. Descends level by level, without recursion. */
export function isTooDeep(value: unknown): boolean {
  let level = isNested(value) ? [value] : [];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > maxNesting) return true;
    const next: object[] = [];
    for (const each of level) for (const member of Object.values(each)) if (isNested(member)) next.push(member);
    level = next;
  }
  return false;
}

/** Whether a value has members: an object or a list. */
export const isNested = (value: unknown): value is object => typeof value === 'object' && value !== null;

const isObject = (value: unknown): value is Members => isNested(value) && !Array.isArray(value);
