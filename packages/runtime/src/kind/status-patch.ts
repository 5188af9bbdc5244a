import { isDeepStrictEqual } from 'node:util';

/**
 * The members of a status that a controller owns. A member that is null or undefined is removed; one that is absent
 * stays.
 */
export type DesiredStatus<S> = { readonly [K in keyof S]?: S[K] | null | undefined };

/**
 * Computes the JSON merge patch (RFC 7386) from the current to the desired status; undefined if they are equal.
 *
 * Top-level members that `desired` does not have belong to other writers and stay. A member that `desired` has gets
 * exactly the desired value: surplus members of objects are removed and lists are replaced. Null and undefined members
 * within list items are dropped.
 *
 * `statusPatch({ phase: 'Running', startTime: t }, { phase: 'Done', startTime: null })` is `{ phase: 'Done', startTime:
 * null }`.
 */
export function statusPatch<S extends object>(current: S | undefined, desired: DesiredStatus<S>): object | undefined {
  const patch: Record<string, unknown> = {};
  for (const [member, value] of Object.entries(desired)) {
    const difference = diff((current as Readonly<Record<string, unknown>> | undefined)?.[member], value);
    if (difference !== undefined) patch[member] = difference;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** Computes the merge patch between two values; undefined if they are equal. */
function diff(current: unknown, wanted: unknown): unknown {
  const desired = inJson(wanted);
  if (desired === undefined || desired === null) return current === undefined || current === null ? undefined : null;
  // Only two objects merge member by member. Any other value replaces the current one.
  if (!isObject(desired) || !isObject(current)) {
    const present = withoutAbsent(desired);
    return isDeepStrictEqual(current, present) ? undefined : present;
  }
  const patch: Record<string, unknown> = {};
  for (const member of new Set([...Object.keys(current), ...Object.keys(desired)])) {
    const difference = diff(current[member], desired[member]);
    if (difference !== undefined) patch[member] = difference;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/**
 * Drops null and undefined members, so that the value equals the stored one. In a merge patch null means "remove", and
 * the API server drops nulls within items of a list.
 */
function withoutAbsent(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutAbsent);
  if (!isObject(value)) return inJson(value);
  const present = Object.entries(value).filter(([, member]) => (inJson(member) ?? undefined) !== undefined);
  return Object.fromEntries(present.map(([name, member]) => [name, withoutAbsent(member)]));
}

/** JSON has no negative zero, and null for a number that is not finite. */
function inJson(value: unknown): unknown {
  if (typeof value !== 'number') return value;
  return Number.isFinite(value) ? value + 0 : undefined;
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
