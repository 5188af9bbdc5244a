import { Echo } from '../../api/index.ts';
import { Job, Pod } from '../../runtime/kinds/index.ts';
import { may, mayOwn, type PolicyRule } from '../permissions.ts';

/** What the Echo controller does. It reads pods to tell why one does not start. */
export const echoPermissions: readonly PolicyRule[] = [
  ...mayOwn(Echo),
  may(['list', 'watch', 'create', 'delete'], Job),
  may(['list', 'watch'], Pod),
];
