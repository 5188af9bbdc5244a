import { PostgresWriter } from '../../api/index.ts';
import { may, type PolicyRule } from '../permissions.ts';

/** What the PostgresWriter controller does. It patches a PostgresWriter to add and remove its finalizer. */
export const postgresWriterPermissions: readonly PolicyRule[] = [
  may(['get', 'list', 'watch', 'patch'], PostgresWriter),
  may(['patch'], PostgresWriter, 'status'),
];
