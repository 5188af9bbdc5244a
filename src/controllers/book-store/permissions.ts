import { BookStore } from '../../api/index.ts';
import { Deployment, PersistentVolumeClaim, Pod, Service, StatefulSet } from '../../runtime/kinds/index.ts';
import { allow, allowOwning, type PolicyRule } from '../permissions.ts';

/** The permissions of the BookStore controller. An apply that creates an object needs `create` and `patch`. */
export const bookStorePermissions: readonly PolicyRule[] = [
  ...allowOwning(BookStore),
  // Adds and removes the finalizer of `reclaimPolicy: Delete`.
  allow(['patch'], BookStore),
  allow(['get', 'list', 'watch', 'create', 'patch'], Deployment),
  allow(['get', 'list', 'watch', 'create', 'patch', 'delete'], StatefulSet),
  allow(['get', 'list', 'watch', 'create', 'patch', 'delete'], Service),
  allow(['get', 'list', 'watch', 'patch', 'delete'], PersistentVolumeClaim),
  // Reports why a pod does not start, and restarts one whose file system has not grown.
  allow(['get', 'list', 'watch', 'delete'], Pod),
];
