import { createHash } from 'node:crypto';

const hashLength = 10;

/**
 * The name of a child: the owner's own where it fits, else a prefix of it and a hash of the whole, so that two long
 * names with one beginning stay two.
 *
 * @param maxLength what the child's kind can hold: a Job's name is also a label's value, so 63.
 */
export function childName(ownerName: string, maxLength: number): string {
  return ownerName.length <= maxLength ? ownerName : hashed(ownerName, ownerName, maxLength);
}

/** As {@link childName}, for a kind whose names have no dots: a StatefulSet's, since its pods' names are host names. */
export function dotlessChildName(ownerName: string, maxLength: number): string {
  if (!ownerName.includes('.')) return childName(ownerName, maxLength);
  return hashed(ownerName.replaceAll('.', '-'), ownerName, maxLength);
}

function hashed(readable: string, ownerName: string, maxLength: number): string {
  const hash = createHash('sha256').update(ownerName).digest('hex').slice(0, hashLength);
  // A name's part must end in a letter or a digit.
  const prefix = readable.slice(0, maxLength - hashLength - 1).replace(/[^a-z0-9]+$/, '');
  return `${prefix}-${hash}`;
}
