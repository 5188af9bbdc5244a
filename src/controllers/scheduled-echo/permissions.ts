import { ScheduledEcho } from '../../api/index.ts';
import { CronJob } from '../built-in-kinds.ts';
import { may, mayOwn, type PolicyRule } from '../permissions.ts';

/** What the ScheduledEcho controller does. An apply that makes its object needs `create` and `patch`. */
export const scheduledEchoPermissions: readonly PolicyRule[] = [
  ...mayOwn(ScheduledEcho),
  may(['get', 'list', 'watch', 'create', 'patch'], CronJob),
];
