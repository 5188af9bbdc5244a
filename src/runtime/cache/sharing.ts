/**
 * Makes `value`, fresh from the parser, share with `reference` whatever parts of the two are equal, and returns it, or
 * `reference` itself where all is. Objects of one kind are much alike (images, security contexts, label values …), and so
 * are two states of one object: a Job that shares with its neighbour takes a third of the memory. Both are readonly from
 * then on.
 */
export function share(value: unknown, reference: unknown): unknown {
  // Of two equal strings the reference's: the other copy can go.
  if (value === reference) return reference;
  if (typeof value !== 'object' || typeof reference !== 'object' || value === null || reference === null) return value;
  // What a transform has put in, and keeps.
  if (Object.isFrozen(value)) return value;
  if (Array.isArray(value)) return Array.isArray(reference) ? shareItems(value, reference) : value;
  return Array.isArray(reference) ? value : shareMembers(value as Members, reference as Members);
}

type Members = Record<string, unknown>;

function shareItems(value: unknown[], reference: readonly unknown[]): unknown {
  let equal = value.length === reference.length;
  const common = Math.min(value.length, reference.length);
  for (let index = 0; index < common; index += 1) {
    const shared = share(value[index], reference[index]);
    if (shared === reference[index]) value[index] = shared;
    else equal = false;
  }
  return equal ? reference : value;
}

function shareMembers(value: Members, reference: Members): unknown {
  let equal = true;
  let count = 0;
  for (const key in value) {
    count += 1;
    const member = value[key];
    const other = reference[key];
    const shared = share(member, other);
    if (shared === other && other !== undefined) value[key] = shared;
    else equal = false;
  }
  if (equal) for (const _ in reference) count -= 1;
  return equal && count === 0 ? reference : value;
}
