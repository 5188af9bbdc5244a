import { Echo } from '../../api/index.ts';
import { Job } from '../built-in-kinds.ts';
import { may, mayOwn, type PolicyRule } from '../permissions.ts';

/** What the Echo controller does. */
export const echoPermissions: readonly PolicyRule[] = [
  ...mayOwn(Echo),
  may(['list', 'watch', 'create', 'delete'], Job),
];
