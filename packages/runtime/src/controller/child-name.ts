import { createHash } from 'node:crypto';

const hashLength = 10;

/**
 * The name of a child: the name of its owner, or, if that is too long, a prefix of it and a hash of the whole name. So
 * two long names with a common prefix give two names.
 *
 * @param maxLength the longest name of the child's kind: 63 for a Job, whose name is also the value of a label.
 */
export function childName(ownerName: string, maxLength: number): string {
  return ownerName.length <= maxLength ? ownerName : hashedName(ownerName, ownerName, maxLength);
}

/**
 * The name of a child that must differ from its owner's name: a prefix of the owner's name and a hash of the whole
 * name, as {@link childName} builds it for a long name.
 */
export function hashedChildName(ownerName: string, maxLength: number): string {
  return hashedName(ownerName, ownerName, maxLength);
}

/**
 * Like {@link childName}, for kinds whose names must not contain dots: a Service, or a StatefulSet, because the names
 * of its pods are host names.
 *
 * The result begins with a digit if the owner's name does. A Service's name must begin with a letter: prepend one, and
 * pass a `maxLength` that leaves room for it.
 */
export function dotlessChildName(ownerName: string, maxLength: number): string {
  if (!ownerName.includes('.')) return childName(ownerName, maxLength);
  return hashedName(ownerName.replaceAll('.', '-'), ownerName, maxLength);
}

function hashedName(readable: string, ownerName: string, maxLength: number): string {
  const hash = createHash('sha256').update(ownerName).digest('hex').slice(0, hashLength);
  // Each part of a name must end in a letter or a digit.
  const prefix = readable.slice(0, maxLength - hashLength - 1).replace(/[^a-z0-9]+$/, '');
  return `${prefix}-${hash}`;
}
