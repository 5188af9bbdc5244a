import { getOwn, isObject } from '../apply/json.ts';
import type { JsonPatchOperation } from '../client/client.ts';

/**
 * Returns the JSON patch (RFC 6902) that changes `from` to `to`: one operation for each member that differs. Lists of
 * the same length are compared item by item, others are replaced. A member that is undefined counts as absent, as in
 * JSON. Both values must be nested at most as deep as `parseBody` allows.
 */
export function jsonPatch(from: unknown, to: unknown, path = ''): readonly JsonPatchOperation[] {
  if (Object.is(from, to)) return [];
  if (isObject(from) && isObject(to)) {
    const names = new Set([...Object.keys(from), ...Object.keys(to)]);
    return [...names].flatMap((name) =>
      memberPatch(getOwn(from, name), getOwn(to, name), `${path}/${toPointer(name)}`),
    );
  }
  if (Array.isArray(from) && Array.isArray(to) && from.length === to.length)
    return from.flatMap((item, index) => jsonPatch(item, to[index], `${path}/${index}`));
  return [{ op: 'replace', path, value: to }];
}

function memberPatch(from: unknown, to: unknown, path: string): readonly JsonPatchOperation[] {
  if (from === undefined) return to === undefined ? [] : [{ op: 'add', path, value: to }];
  if (to === undefined) return [{ op: 'remove', path }];
  return jsonPatch(from, to, path);
}

const toPointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');
