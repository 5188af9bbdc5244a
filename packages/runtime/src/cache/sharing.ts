/** Strings that repeat within an object: a Job contains its uid in five places. */
interface Names {
  readonly name: string;
  readonly uid: string;
}

/**
 * Replaces each part of `object` by the same part of `reference` if the two parts are equal. Returns `reference` if all
 * parts are equal, otherwise `object`.
 *
 * Objects of one kind, and two states of one object, have many equal parts: images, security contexts, labels. A Job
 * that shares with another Job takes half the memory. `object` must be freshly parsed. Nobody may change either object
 * afterwards.
 */
export function share<T extends { readonly metadata: Names }>(object: T, reference: T | undefined): T {
  return shareValue(object, reference, object.metadata) as T;
}

function shareValue(value: unknown, reference: unknown, names: Names): unknown {
  // For equal strings, keep the reference's copy, so that the other one can be collected.
  if (value === reference) return reference;
  if (value === names.uid) return names.uid;
  if (value === names.name) return names.name;
  if (typeof value !== 'object' || value === null) return value;
  // Do not write to a frozen value: a transform inserted it, and may insert it into other objects too.
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
    // If `reference` has no such member, this is undefined or an inherited value. A parsed value equals neither.
    const other = key === '__proto__' ? undefined : reference[key];
    const shared = shareValue(value[key], other, names);
    value[key] = shared;
    if (shared !== other || other === undefined) equal = false;
  }
  if (equal) for (const _ in reference) count -= 1;
  return equal && count === 0 ? reference : value;
}

/** Copies an object with unreadable members. These members stay unreadable in the copy. */
export function copyUnreadable<T extends object>(object: T): T {
  const members: Record<string, PropertyDescriptor> = Object.getOwnPropertyDescriptors(object);
  for (const member of Object.values(members)) if ('value' in member) member.value = copy(member.value);
  return Object.defineProperties({}, members) as T;
}

/** A copy of a parsed value, so that {@link share} does not change the original. */
export function copy<T>(value: T): T {
  return copyValue(value) as T;
}

function copyValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copyValue);
  // `Object.fromEntries` would give the copy another hidden class than a literal has. Assigning `__proto__` would set
  // the prototype.
  const members: Members = {};
  for (const [name, member] of Object.entries(value)) {
    if (name === '__proto__') Object.defineProperty(members, name, { value: copyValue(member), enumerable: true });
    else members[name] = copyValue(member);
  }
  return members;
}
