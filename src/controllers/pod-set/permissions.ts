import { PodSet } from '../../api/index.ts';
import { Pod } from '../../runtime/kinds/index.ts';
import { allow, allowOwning, type PolicyRule } from '../permissions.ts';

/** The permissions of the PodSet controller. It patches a pod to adopt or release it. */
export const podSetPermissions: readonly PolicyRule[] = [
  ...allowOwning(PodSet),
  allow(['get', 'list', 'watch', 'create', 'patch', 'delete'], Pod),
];
