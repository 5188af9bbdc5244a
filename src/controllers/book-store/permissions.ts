import { BookStore } from '../../api/index.ts';
import { Deployment, PersistentVolumeClaim, Pod, Service, StatefulSet } from '../../runtime/kinds/index.ts';
import { may, mayOwn, type PolicyRule } from '../permissions.ts';

/** What the BookStore controller does. An apply that creates its object needs `create` and `patch`. */
export const bookStorePermissions: readonly PolicyRule[] = [
  ...mayOwn(BookStore),
  // The finalizer of `reclaimPolicy: Delete`.
  may(['patch'], BookStore),
  may(['get', 'list', 'watch', 'create', 'patch'], Deployment),
  may(['get', 'list', 'watch', 'create', 'patch', 'delete'], StatefulSet),
  may(['get', 'list', 'watch', 'create', 'patch', 'delete'], Service),
  may(['get', 'list', 'watch', 'patch', 'delete'], PersistentVolumeClaim),
  // To say why one does not start, and to restart one whose file system has not grown.
  may(['get', 'list', 'watch', 'delete'], Pod),
];
