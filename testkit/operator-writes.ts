import type { AuditEvent, AuditLog } from '../tools/cluster/index.ts';

/** Returns the operator's writes in a namespace to which the API server has responded, in the order of its log. */
export async function operatorWrites(auditLog: AuditLog, namespace: string): Promise<readonly AuditEvent[]> {
  return (await auditLog.events(namespace)).filter(({ userAgent }) => userAgent?.startsWith('echoperator/'));
}

/**
 * Counts the operator's successful creations of each Job, by the Job's name. Does not count a creation whose sender was
 * killed before the response, although the Job may exist.
 */
export function jobsCreated(writes: readonly AuditEvent[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { verb, objectRef, responseStatus } of writes) {
    if (verb !== 'create' || objectRef?.resource !== 'jobs' || responseStatus?.code !== 201) continue;
    const name = objectRef.name ?? '';
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}
