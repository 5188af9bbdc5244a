import { ScheduledEcho } from '../../api/index.ts';
import { CronJob, Pod } from '../../runtime/kinds/index.ts';
import { may, mayOwn, type PolicyRule } from '../permissions.ts';

/**
 * What the ScheduledEcho controller does. An apply that makes its object needs `create` and `patch`; pods are read to tell
 * why one does not start.
 */
export const scheduledEchoPermissions: readonly PolicyRule[] = [
  ...mayOwn(ScheduledEcho),
  may(['get', 'list', 'watch', 'create', 'patch'], CronJob),
  may(['list', 'watch'], Pod),
];
