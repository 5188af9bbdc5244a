import { BookStore } from '../../api/index.ts';
import { ControllerRevision, Deployment, PersistentVolumeClaim, Pod, Service, StatefulSet } from '../built-in-kinds.ts';
import { may, mayOwn, type PolicyRule } from '../permissions.ts';

/**
 * What the BookStore controller does. An apply that makes its object needs `create` and `patch`; who changes an object's
 * owners has to be allowed to delete it where the API server guards them (OwnerReferencesPermissionEnforcement).
 */
export const bookStorePermissions: readonly PolicyRule[] = [
  ...mayOwn(BookStore),
  // Its finalizer, while the data is to go with it.
  may(['patch'], BookStore),
  may(['get', 'list', 'watch', 'create', 'patch'], Deployment),
  may(['get', 'list', 'watch', 'create', 'patch', 'delete'], StatefulSet),
  may(['get', 'list', 'watch', 'create', 'patch', 'delete'], Service),
  may(['get', 'list', 'watch', 'patch', 'delete'], PersistentVolumeClaim),
  // What a StatefulSet is made anew from, and those that it leaves behind meanwhile.
  may(['get', 'list', 'watch', 'create', 'patch', 'delete'], ControllerRevision),
  may(['get', 'list', 'patch', 'delete'], Pod),
];
