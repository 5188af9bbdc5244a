import { readFile } from 'node:fs/promises';

/** Writes with who sent them and what was answered; reads are of no interest to anybody here. */
export const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
`;

/** One line of an API server's audit log under {@link auditPolicy}: a write that was answered. */
export interface AuditEvent {
  readonly verb: string;
  readonly user: {
    readonly username: string;
    /** Of a pod's token: which pod's, under `authentication.kubernetes.io/pod-name`. */
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
  /** Absent where the client sent none. */
  readonly userAgent?: string;
  readonly requestURI: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly objectRef?: {
    readonly resource?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly subresource?: string;
  };
  readonly responseStatus?: { readonly code?: number };
}

/** What the log holds now, oldest first. @param mentioning of the events that hold this text; by default, all */
export async function readAuditLog(file: string, mentioning = ''): Promise<readonly AuditEvent[]> {
  const lines = (await readFile(file, 'utf8')).split('\n');
  // The server may be writing the last one.
  const whole = lines.slice(0, -1).filter((line) => line.includes(mentioning));
  return whole.map((line) => JSON.parse(line) as AuditEvent);
}
