import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { benchUserAgent } from '../api-server.ts';

/** What the audit log says of the writes to the objects of one resource, by whomever but the one who has created them. */
export interface Writes {
  /** By verb and resource, such as `patch pets/status`, refused ones included. */
  readonly counts: ReadonlyMap<string, number>;
  /** Seconds from the arrival of the first to the answer to the last. */
  readonly seconds: number;
}

interface AuditLine {
  readonly verb: string;
  readonly userAgent?: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly objectRef?: { readonly resource?: string; readonly name?: string; readonly subresource?: string };
}

/** Reads the audit log of a server that has stopped. */
export async function readWrites(auditLog: string, resource: string): Promise<Writes> {
  const counts = new Map<string, number>();
  let begin = Number.POSITIVE_INFINITY;
  let end = 0;
  for await (const line of createInterface({
    input: createReadStream(auditLog),
    crlfDelay: Number.POSITIVE_INFINITY,
  })) {
    const { verb, userAgent, requestReceivedTimestamp, stageTimestamp, objectRef } = JSON.parse(line) as AuditLine;
    if (objectRef?.resource !== resource || objectRef.name === undefined || userAgent === benchUserAgent) continue;
    const what = `${verb} ${resource}${objectRef.subresource === undefined ? '' : `/${objectRef.subresource}`}`;
    counts.set(what, (counts.get(what) ?? 0) + 1);
    begin = Math.min(begin, Date.parse(requestReceivedTimestamp));
    end = Math.max(end, Date.parse(stageTimestamp));
  }
  return { counts: new Map([...counts].sort()), seconds: (end - begin) / 1000 };
}
