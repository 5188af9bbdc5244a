import { Pet } from '../../api/index.ts';
import { may, type PolicyRule } from '../permissions.ts';

/** What the Pet controller does in the cluster. It patches a Pet to add its finalizer and to take it off. */
export const petPermissions: readonly PolicyRule[] = [
  may(['get', 'list', 'watch', 'patch'], Pet),
  may(['patch'], Pet, 'status'),
];
