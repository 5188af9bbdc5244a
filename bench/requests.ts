import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { benchUserAgent } from './api-server.ts';

/** The requests for some objects in the audit log of a stopped server. */
export interface Requests {
  /** The operator's requests by verb and resource, such as `create jobs`, including refused ones. */
  readonly counts: ReadonlyMap<string, number>;
  /** Seconds from the arrival of the first counted request until the response to the operator's last write. */
  readonly seconds: number;
}

interface AuditLine {
  readonly verb: string;
  readonly userAgent?: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly responseStatus?: { readonly code: number };
  readonly objectRef?: ObjectRef;
}

interface ObjectRef {
  readonly resource?: string;
  readonly name?: string;
  readonly subresource?: string;
}

/**
 * Reads the requests for Echos with a name prefix, and for their Jobs and Events. The time starts with the first Echo's
 * creation.
 *
 * @param only the only requests to count, such as `create jobs`. Default: all
 */
export async function readRequests(auditLog: string, prefix: string, only?: string): Promise<Requests> {
  const counts = new Map<string, number>();
  let begin = Number.POSITIVE_INFINITY;
  let end = 0;
  for await (const { verb, userAgent, requestReceivedTimestamp, stageTimestamp, objectRef } of auditLines(auditLog)) {
    if (!objectRef?.name?.startsWith(prefix)) continue;
    if (userAgent === benchUserAgent) {
      if (verb === 'create') begin = Math.min(begin, Date.parse(requestReceivedTimestamp));
      continue;
    }
    if (only !== undefined && nameOf(verb, objectRef) !== only) continue;
    count(counts, verb, objectRef);
    if (verb !== 'get' && verb !== 'list') end = Math.max(end, Date.parse(stageTimestamp));
  }
  return { counts: new Map([...counts].sort()), seconds: (end - begin) / 1000 };
}

/** Reads the requests for the objects of a resource, except the bench's own. */
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

/**
 * Returns how many creations of objects with a name prefix the API server refused in the worst second of a time.
 *
 * @param time by `Date.now()`
 */
export async function mostRefusals(
  auditLog: string,
  prefix: string,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<number> {
  const refusals = new Map<number, number>();
  for await (const { verb, objectRef, responseStatus, stageTimestamp } of auditLines(auditLog)) {
    if (verb !== 'create' || !objectRef?.name?.startsWith(prefix) || (responseStatus?.code ?? 0) < 400) continue;
    const atMs = Date.parse(stageTimestamp);
    if (atMs < fromMs || atMs >= toMs) continue;
    const second = Math.floor((atMs - fromMs) / 1000);
    refusals.set(second, (refusals.get(second) ?? 0) + 1);
  }
  return Math.max(0, ...refusals.values());
}

/**
 * Returns how many watches the service accounts have started, without refused ones: of a new kind the server refuses
 * the first.
 */
export async function readWatches(auditLog: string): Promise<number> {
  let watches = 0;
  for await (const { verb, responseStatus } of auditLines(auditLog)) {
    if (verb === 'watch' && responseStatus?.code === 200) watches += 1;
  }
  return watches;
}

async function* auditLines(auditLog: string): AsyncGenerator<AuditLine> {
  const input = createReadStream(auditLog);
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    yield JSON.parse(line) as AuditLine;
  }
}

const nameOf = (verb: string, { resource, subresource }: ObjectRef): string =>
  `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;

function count(counts: Map<string, number>, verb: string, of: ObjectRef): void {
  const what = nameOf(verb, of);
  counts.set(what, (counts.get(what) ?? 0) + 1);
}

/** Formats the requests per Echo: `create jobs 1, patch echos/status 1.002`. */
export function perEcho({ counts }: Requests, echos: number): string {
  return [...counts].map(([what, count]) => `${what} ${Number((count / echos).toFixed(3))}`).join(', ');
}
