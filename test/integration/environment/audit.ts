import { readFile } from 'node:fs/promises';

/** One answered request, as the API server's audit log has it. */
export interface AuditedRequest {
  readonly verb: string;
  /** Absent where the client sent none. */
  readonly userAgent?: string;
  readonly requestReceivedTimestamp: string;
  readonly objectRef?: {
    readonly resource?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly subresource?: string;
  };
  readonly responseStatus?: { readonly code?: number };
}

/** The writes of the operator in a namespace that the API server has answered, in the order of its log. */
export async function operatorWrites(auditLog: string, namespace: string): Promise<readonly AuditedRequest[]> {
  const text = await readFile(auditLog, 'utf8');
  // The server may be writing the last line.
  const complete = text.slice(0, text.lastIndexOf('\n'));
  return complete
    .split('\n')
    .filter((line) => line.includes(namespace))
    .map((line) => JSON.parse(line) as AuditedRequest)
    .filter((request) => request.userAgent?.startsWith('echoperator/') && request.objectRef?.namespace === namespace);
}

/**
 * How often the operator's creation of each Job was answered with success, by the Job's name. A creation whose sender
 * was killed before the answer is not among them, though it may have happened.
 */
export function jobsCreated(writes: readonly AuditedRequest[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { verb, objectRef, responseStatus } of writes) {
    if (verb !== 'create' || objectRef?.resource !== 'jobs' || responseStatus?.code !== 201) continue;
    const name = objectRef.name ?? '';
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}
