import { Echo } from '../../api/index.ts';
import { Job, Pod } from '../../runtime/kinds/index.ts';
import { allow, allowOwning, type PolicyRule } from '../permissions.ts';

/**
 * The permissions of the Echo controller. A `get` of a Job tells whether a create without an answer succeeded. Pods show why
 * one does not start.
 */
export const echoPermissions: readonly PolicyRule[] = [
  ...allowOwning(Echo),
  allow(['get', 'list', 'watch', 'create', 'delete'], Job),
  allow(['list', 'watch'], Pod),
];
