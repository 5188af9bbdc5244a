import { Pet } from '../../api/index.ts';
import { allow, type PolicyRule } from '../permissions.ts';

/** The permissions of the Pet controller. It patches a Pet to add and remove the finalizer. */
export const petPermissions: readonly PolicyRule[] = [
  allow(['get', 'list', 'watch', 'patch'], Pet),
  allow(['patch'], Pet, 'status'),
];
