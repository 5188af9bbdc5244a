/** Reads the candidates' requests from the API server's audit log. */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { TurnError } from '../running-operator.ts';

/** One request of a candidate. */
export interface CandidateRequest {
  /** The name of the pod that the token belongs to, or else the user. */
  readonly candidate: string;
  readonly verb: string;
  /** Includes the subresource: `echos/status`. Absent for a request without a resource. */
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

/** The key under which a pod's token names the pod. */
const podName = 'authentication.kubernetes.io/pod-name';

/** Returns the requests of a namespace's service accounts, in the order in which the server received them. */
export async function readCandidateRequests(auditLog: string, namespace: string): Promise<readonly CandidateRequest[]> {
  const users = `system:serviceaccount:${namespace}:`;
  const requests: CandidateRequest[] = [];
  for await (const line of createInterface({
    input: createReadStream(auditLog),
    crlfDelay: Number.POSITIVE_INFINITY,
  })) {
    // Skip other users' lines without parsing them. The last line may be incomplete.
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

/** Parses a time with microseconds, which Date truncates. */
function millisecondsOf(timestamp: string): number {
  const [whole = '', fraction = ''] = timestamp.replace('Z', '').split('.');
  return Date.parse(`${whole}Z`) + Number(`0.${fraction || 0}`) * 1000;
}

/** A leader's end, and its successor. */
export interface Handover {
  /** When the signal was sent, in milliseconds since 1970. */
  readonly signalledMs: number;
  readonly next: string;
  /** When `next` acquired the Lease, in milliseconds since 1970. Default: unknown, but after the signal. */
  readonly nextLedFromMs?: number;
}

/**
 * Returns the milliseconds from the signal until the server received the next leader's first write: a creation of a Job
 * or a patch of an Echo's status.
 *
 * @throws TurnError if there is no such write, or if the next leader wrote or led before the signal
 */
export function handoverMs(requests: readonly CandidateRequest[], handover: Handover): number {
  const { signalledMs, next, nextLedFromMs } = handover;
  const writes = requests.filter((request) => request.candidate === next && isWork(request));
  const [early] = writes;
  if (nextLedFromMs === undefined && early !== undefined && early.receivedMs < signalledMs) {
    const soonerMs = (signalledMs - early.receivedMs).toFixed(0);
    throw new TurnError(`${next} wrote ${soonerMs} ms before the leader was signalled`);
  }
  if (nextLedFromMs !== undefined && nextLedFromMs < signalledMs) throw new TurnError(`${next} led before the signal`);
  const first = writes.find(({ receivedMs }) => receivedMs >= (nextLedFromMs ?? signalledMs));
  if (first === undefined) throw new TurnError(`${next} leads but has written nothing`);
  return first.receivedMs - signalledMs;
}

const isWork = ({ verb, resource }: CandidateRequest): boolean =>
  (resource === 'jobs' || resource === 'echos/status') && !['get', 'list', 'watch'].includes(verb);

/** A period in milliseconds since 1970, from `fromMs` to before `toMs`. */
export interface Period {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Returns the requests per hour that some candidates sent in a period. */
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
