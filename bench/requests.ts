import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { benchUserAgent } from './api-server.ts';

/** What the audit log says of the Echos whose names begin in one way. */
export interface Requests {
  /** The operator's requests by verb and resource, such as `create jobs`, refused ones included. */
  readonly counts: ReadonlyMap<string, number>;
  /** Seconds from the arrival of the first Echo's creation to the answer to the operator's last write. */
  readonly seconds: number;
}

interface AuditLine {
  readonly verb: string;
  readonly userAgent?: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly objectRef?: { readonly resource?: string; readonly name?: string; readonly subresource?: string };
}

/** Reads the audit log of a server that has stopped. @param prefix of the Echos' names; Jobs and Events begin with them */
export async function readRequests(auditLog: string, prefix: string): Promise<Requests> {
  const counts = new Map<string, number>();
  let begin = Number.POSITIVE_INFINITY;
  let end = 0;
  for await (const line of createInterface({
    input: createReadStream(auditLog),
    crlfDelay: Number.POSITIVE_INFINITY,
  })) {
    const { verb, userAgent, requestReceivedTimestamp, stageTimestamp, objectRef } = JSON.parse(line) as AuditLine;
    if (!objectRef?.name?.startsWith(prefix)) continue;
    if (userAgent === benchUserAgent) {
      if (verb === 'create') begin = Math.min(begin, Date.parse(requestReceivedTimestamp));
      continue;
    }
    const { resource, subresource } = objectRef;
    const what = `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;
    counts.set(what, (counts.get(what) ?? 0) + 1);
    if (verb !== 'get' && verb !== 'list') end = Math.max(end, Date.parse(stageTimestamp));
  }
  return { counts: new Map([...counts].sort()), seconds: (end - begin) / 1000 };
}

/** `create jobs 1, patch echos/status 1.002`: requests an Echo. */
export function perEcho({ counts }: Requests, echos: number): string {
  return [...counts].map(([what, count]) => `${what} ${Number((count / echos).toFixed(3))}`).join(', ');
}
