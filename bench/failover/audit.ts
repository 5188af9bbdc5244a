/** What the API server's audit log says of the candidates. */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { TurnError } from '../running-operator.ts';

/** One request of a candidate. */
export interface CandidateRequest {
  /** Whose: the name of the pod whose token it had, or else of the user. */
  readonly candidate: string;
  readonly verb: string;
  /** With its subresource: `echos/status`. Absent where it was for no resource. */
  readonly resource?: string;
  /** When the API server received it, in milliseconds since 1970. */
  readonly receivedMs: number;
}

interface AuditLine {
  readonly verb: string;
  readonly user: { readonly username: string; readonly extra?: Readonly<Record<string, readonly string[]>> };
  readonly requestReceivedTimestamp: string;
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string };
}

/** A token that was made for a pod tells its name. */
const podName = 'authentication.kubernetes.io/pod-name';

/** What the log says of the service accounts of a namespace, in the order in which the server received it. */
export async function readCandidateRequests(auditLog: string, namespace: string): Promise<readonly CandidateRequest[]> {
  const users = `system:serviceaccount:${namespace}:`;
  const requests: CandidateRequest[] = [];
  for await (const line of createInterface({
    input: createReadStream(auditLog),
    crlfDelay: Number.POSITIVE_INFINITY,
  })) {
    // Most of a log is of others. The last line may be one that is being written.
    if (!line.includes(users) || !line.endsWith('}')) continue;
    const { verb, user, requestReceivedTimestamp, objectRef } = JSON.parse(line) as AuditLine;
    if (!user.username.startsWith(users)) continue;
    const { resource, subresource } = objectRef ?? {};
    requests.push({
      candidate: user.extra?.[podName]?.[0] ?? user.username,
      verb,
      ...(resource !== undefined && { resource: subresource === undefined ? resource : `${resource}/${subresource}` }),
      receivedMs: millisecondsOf(requestReceivedTimestamp),
    });
  }
  return requests.sort((a, b) => a.receivedMs - b.receivedMs);
}

/** Of a time with microseconds, which a Date would cut off. */
function millisecondsOf(timestamp: string): number {
  const [whole = '', fraction = ''] = timestamp.replace('Z', '').split('.');
  return Date.parse(`${whole}Z`) + Number(`0.${fraction || 0}`) * 1000;
}

/** The end of a leader, and who came after it. */
export interface Handover {
  /** When the leader got the signal, in milliseconds since 1970. */
  readonly signalledMs: number;
  readonly next: string;
  /** From when on `next` can have led, in milliseconds since 1970. Default: the signal. */
  readonly nextLedFromMs?: number;
}

/**
 * Milliseconds from the signal to the next leader's first write: to its first request to make a Job, or to write an Echo's
 * status, as the server received it.
 *
 * @throws TurnError if it has written none, or some before the signal, or if it led before.
 */
export function handoverMs(requests: readonly CandidateRequest[], handover: Handover): number {
  const { signalledMs, next, nextLedFromMs } = handover;
  const writes = requests.filter((request) => request.candidate === next && isWork(request));
  const [early] = writes;
  if (nextLedFromMs === undefined && early !== undefined && early.receivedMs < signalledMs) {
    const soonerMs = (signalledMs - early.receivedMs).toFixed(0);
    throw new TurnError(`${next} wrote ${soonerMs} ms before the end of the leader that it stood by for`);
  }
  if (nextLedFromMs !== undefined && nextLedFromMs < signalledMs) throw new TurnError(`${next} led before the signal`);
  const first = writes.find(({ receivedMs }) => receivedMs >= (nextLedFromMs ?? signalledMs));
  if (first === undefined) throw new TurnError(`${next} should lead and has written nothing`);
  return first.receivedMs - signalledMs;
}

const isWork = ({ verb, resource }: CandidateRequest): boolean =>
  (resource === 'jobs' || resource === 'echos/status') && !['get', 'list', 'watch'].includes(verb);

/** A time to count in, in milliseconds since 1970: the first included, the last not. */
export interface Period {
  readonly fromMs: number;
  readonly toMs: number;
}

/** How many requests an hour some candidates sent in a period. */
export function requestsPerHour(
  requests: readonly CandidateRequest[],
  candidates: readonly string[],
  { fromMs, toMs }: Period,
): number {
  const counted = requests.filter(
    ({ candidate, receivedMs }) => candidates.includes(candidate) && receivedMs >= fromMs && receivedMs < toMs,
  );
  return (counted.length * 3_600_000) / (toMs - fromMs);
}
