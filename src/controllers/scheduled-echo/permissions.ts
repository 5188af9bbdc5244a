import { ScheduledEcho } from '../../api/index.ts';
import { CronJob, Pod } from '../../runtime/kinds/index.ts';
import { allow, allowOwning, type PolicyRule } from '../permissions.ts';

/**
 * The permissions of the ScheduledEcho controller. An apply that creates an object needs `create` and `patch`. The controller
 * reads pods to report why one does not start.
 */
export const scheduledEchoPermissions: readonly PolicyRule[] = [
  ...allowOwning(ScheduledEcho),
  allow(['get', 'list', 'watch', 'create', 'patch'], CronJob),
  allow(['list', 'watch'], Pod),
];
