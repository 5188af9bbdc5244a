import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { benchUserAgent } from './api-server.ts';

/** What the audit log of a server that has stopped says of some objects. */
export interface Requests {
  /** The operator's requests by verb and resource, such as `create jobs`, refused ones included. */
  readonly counts: ReadonlyMap<string, number>;
  /** Seconds from the arrival of the first of what counts to the answer to the operator's last write. */
  readonly seconds: number;
}

interface AuditLine {
  readonly verb: string;
  readonly userAgent?: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly objectRef?: ObjectRef;
}

interface ObjectRef {
  readonly resource?: string;
  readonly name?: string;
  readonly subresource?: string;
}

/** Of the Echos whose names begin so, from the first one's creation on. @param prefix Jobs and Events begin with them too */
export async function readRequests(auditLog: string, prefix: string): Promise<Requests> {
  const counts = new Map<string, number>();
  let begin = Number.POSITIVE_INFINITY;
  let end = 0;
  for await (const { verb, userAgent, requestReceivedTimestamp, stageTimestamp, objectRef } of auditLines(auditLog)) {
    if (!objectRef?.name?.startsWith(prefix)) continue;
    if (userAgent === benchUserAgent) {
      if (verb === 'create') begin = Math.min(begin, Date.parse(requestReceivedTimestamp));
      continue;
    }
    count(counts, verb, objectRef);
    if (verb !== 'get' && verb !== 'list') end = Math.max(end, Date.parse(stageTimestamp));
  }
  return { counts: new Map([...counts].sort()), seconds: (end - begin) / 1000 };
}

/** What the audit log says of the requests for the objects of one resource, but for the bench's own. */
export async function readRequestsFor(resource: string, auditLog: string): Promise<Requests> {
  const counts = new Map<string, number>();
  let begin = Number.POSITIVE_INFINITY;
  let end = 0;
  for await (const { verb, userAgent, requestReceivedTimestamp, stageTimestamp, objectRef } of auditLines(auditLog)) {
    if (objectRef?.resource !== resource || objectRef.name === undefined || userAgent === benchUserAgent) continue;
    count(counts, verb, objectRef);
    begin = Math.min(begin, Date.parse(requestReceivedTimestamp));
    end = Math.max(end, Date.parse(stageTimestamp));
  }
  return { counts: new Map([...counts].sort()), seconds: (end - begin) / 1000 };
}

async function* auditLines(auditLog: string): AsyncGenerator<AuditLine> {
  const input = createReadStream(auditLog);
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    yield JSON.parse(line) as AuditLine;
  }
}

function count(counts: Map<string, number>, verb: string, { resource, subresource }: ObjectRef): void {
  const what = `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;
  counts.set(what, (counts.get(what) ?? 0) + 1);
}

/** `create jobs 1, patch echos/status 1.002`: requests an Echo. */
export function perEcho({ counts }: Requests, echos: number): string {
  return [...counts].map(([what, count]) => `${what} ${Number((count / echos).toFixed(3))}`).join(', ');
}
