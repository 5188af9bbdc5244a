import { PostgresWriter } from '../../api/index.ts';
import { allow, type PolicyRule } from '../permissions.ts';

/** The permissions of the PostgresWriter controller. It patches a PostgresWriter to add and remove the finalizer. */
export const postgresWriterPermissions: readonly PolicyRule[] = [
  allow(['get', 'list', 'watch', 'patch'], PostgresWriter),
  allow(['patch'], PostgresWriter, 'status'),
];
