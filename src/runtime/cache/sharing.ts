/** The strings that stand in an object again and again: a Job has its uid in five places. */
interface Names {
  readonly name: string;
  readonly uid: string;
}

/**
 * Makes `object`, fresh from the parser, share with `reference` whatever parts of the two are equal, and returns it, or
 * `reference` itself where all is. Objects of one kind are much alike (images, security contexts, label values …), and so
 * are two states of one object: a Job that shares with its neighbour takes half of the memory. Both are readonly from
 * then on.
 */
export function share<T extends { readonly metadata: Names }>(object: T, reference: T | undefined): T {
  return shareValue(object, reference, object.metadata) as T;
}

function shareValue(value: unknown, reference: unknown, names: Names): unknown {
  // Of two equal strings the reference's: the other copy can go.
  if (value === reference) return reference;
  if (value === names.uid) return names.uid;
  if (value === names.name) return names.name;
  if (typeof value !== 'object' || value === null) return value;
  // What a transform has put in, and keeps.
  if (Object.isFrozen(value)) return value;
  if (Array.isArray(value)) return shareItems(value, Array.isArray(reference) ? reference : noItems, names);
  return shareMembers(value as Members, isMembers(reference) ? reference : noMembers, names);
}

type Members = Record<string, unknown>;

const noItems: readonly unknown[] = Object.freeze([]);
const noMembers: Members = Object.freeze({});

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function shareItems(value: unknown[], reference: readonly unknown[], names: Names): unknown {
  let equal = value.length === reference.length;
  for (let index = 0; index < value.length; index += 1) {
    const other = reference[index];
    const shared = shareValue(value[index], other, names);
    value[index] = shared;
    if (shared !== other) equal = false;
  }
  return equal ? reference : value;
}

function shareMembers(value: Members, reference: Members, names: Names): unknown {
  let equal = true;
  let count = 0;
  for (const key in value) {
    count += 1;
    // Where the reference has no such member this is undefined, or something that no parser makes.
    const other = key === '__proto__' ? undefined : reference[key];
    const shared = shareValue(value[key], other, names);
    value[key] = shared;
    if (shared !== other || other === undefined) equal = false;
  }
  if (equal) for (const _ in reference) count -= 1;
  return equal && count === 0 ? reference : value;
}
