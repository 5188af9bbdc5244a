import { PodSet } from '../../api/index.ts';
import { Pod } from '../../runtime/kinds/index.ts';
import { may, mayOwn, type PolicyRule } from '../permissions.ts';

/** What the PodSet controller does. It patches a pod to adopt or release it. */
export const podSetPermissions: readonly PolicyRule[] = [
  ...mayOwn(PodSet),
  may(['get', 'list', 'watch', 'create', 'patch', 'delete'], Pod),
];
