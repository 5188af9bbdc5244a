import { allow } from '../runtime/controller/index.ts';
import type { Kind, PolicyRule } from '../runtime/index.ts';

export { allow, type PolicyRule };

/**
 * Allows a controller to read the objects of its own kind, to write their status, and to own children. The owner reference of a
 * child sets `blockOwnerDeletion`, which the admission plugin OwnerReferencesPermissionEnforcement allows only with `update` on
 * the finalizers of the owner.
 */
export const allowOwning = (kind: Kind): readonly PolicyRule[] => [
  allow(['get', 'list', 'watch'], kind),
  allow(['patch'], kind, 'status'),
  allow(['update'], kind, 'finalizers'),
];
