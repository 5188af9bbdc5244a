import { isDeepStrictEqual } from 'node:util';

/** The members of a status that somebody reports. Null, or undefined: the member is to be absent. */
export type DesiredStatus<S> = { readonly [K in keyof S]?: S[K] | null | undefined };

/**
 * The JSON merge patch (RFC 7386) that makes a status say what is desired, or undefined if it says so already: then
 * there is nothing to send. Members of the status that `desired` does not name, at the top, stay as they are: they are
 * others'. A member that it names becomes just that: of an object all that is not in it is removed, and a list is
 * replaced whole. Members of a list's items that are null or undefined are absent too.
 *
 * @example statusPatch({ phase: 'Running', startTime: t }, { phase: 'Done', startTime: null }) // { phase: 'Done', startTime: null }
 */
export function statusPatch<S extends object>(current: S | undefined, desired: DesiredStatus<S>): object | undefined {
  const patch: Record<string, unknown> = {};
  for (const [member, value] of Object.entries(desired)) {
    const difference = patchOf((current as Readonly<Record<string, unknown>> | undefined)?.[member], value);
    if (difference !== undefined) patch[member] = difference;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** What a merge patch has to say to turn one value into the other; undefined: nothing. */
function patchOf(current: unknown, desired: unknown): unknown {
  if (desired === undefined || desired === null) return current === undefined || current === null ? undefined : null;
  // A patch cannot say "an empty object" of what is one already, and need not.
  if (!isObject(desired) || !isObject(current)) {
    const present = withoutAbsent(desired);
    return isDeepStrictEqual(current, present) ? undefined : present;
  }
  const patch: Record<string, unknown> = {};
  for (const member of new Set([...Object.keys(current), ...Object.keys(desired)])) {
    const difference = patchOf(current[member], desired[member]);
    if (difference !== undefined) patch[member] = difference;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/**
 * The value as it is stored. Null means "remove" in a patch, so what is to be absent has no place where nothing is yet; and
 * the API server drops a null in an item of a list.
 */
function withoutAbsent(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutAbsent);
  if (!isObject(value)) return value;
  const present = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
  return Object.fromEntries(present.map(([name, member]) => [name, withoutAbsent(member)]));
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
