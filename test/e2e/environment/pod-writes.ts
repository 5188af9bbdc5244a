import type { AuditEvent, AuditLog } from '../../../tools/cluster/index.ts';

/** A write of one of the operator's pods, as the API server's audit log has it. */
export interface PodWrite {
  readonly pod: string;
  readonly verb: string;
  readonly resource: string;
  readonly name: string;
  readonly code: number;
  /** When the API server had the request, and when it had answered, by its clock: RFC 3339 to the microsecond. */
  readonly received: string;
  readonly answered: string;
}

const podName = 'authentication.kubernetes.io/pod-name';

/** The writes of all of the operator's pods in a namespace, in the order in which the API server received them. */
export async function podWrites(auditLog: AuditLog, namespace: string): Promise<readonly PodWrite[]> {
  const events = await auditLog.events(namespace);
  return events.flatMap((event) => podWrite(event) ?? []).sort((a, b) => (a.received < b.received ? -1 : 1));
}

function podWrite(event: AuditEvent): PodWrite | undefined {
  const { verb, user, userAgent, objectRef, responseStatus } = event;
  if (!userAgent?.startsWith('echoperator/') || objectRef === undefined) return undefined;
  return {
    pod: user.extra?.[podName]?.[0] ?? user.username,
    verb,
    resource: [objectRef.resource, objectRef.subresource].filter(Boolean).join('/'),
    name: objectRef.name ?? '',
    code: responseStatus?.code ?? 0,
    received: event.requestReceivedTimestamp,
    answered: event.stageTimestamp,
  };
}

/** Those that created a Job. */
export const jobCreations = (writes: readonly PodWrite[]): readonly PodWrite[] =>
  writes.filter(({ verb, resource, code }) => verb === 'create' && resource === 'jobs' && code === 201);

/**
 * Those that have changed something. What a leader has sent in time may land late, and is refused then. Events only tell
 * what was; theirs may be late.
 */
export const effective = (writes: readonly PodWrite[]): readonly PodWrite[] =>
  writes.filter(({ code, resource }) => code < 300 && resource !== 'events');

/** The pods that wrote, each until another one did, in this order. */
export function turns(writes: readonly PodWrite[]): readonly string[] {
  return writes.map(({ pod }) => pod).filter((pod, i, all) => pod !== all[i - 1]);
}

/**
 * The longest time in which no Job was made, in milliseconds.
 *
 * @param sinceMs the writes before do not count, the last of them excepted
 */
export function longestGapMs(creations: readonly PodWrite[], sinceMs: number): number {
  const stamps = creations.map(({ answered }) => Date.parse(answered)).sort((a, b) => a - b);
  const gaps = stamps.flatMap((stamp, i) => (i > 0 && stamp >= sinceMs ? [stamp - (stamps[i - 1] ?? stamp)] : []));
  return Math.max(0, ...gaps);
}

/** How the lead has passed from one pod to another, by the API server's clock. */
export interface Handover {
  readonly from: string;
  readonly to: string;
  /** From the last write of the one to the Lease (its release, or its last renewal) to the other's first. */
  readonly leaseMs: number;
  /** From the same moment to the first Job that the other made; infinite where it made none. */
  readonly workMs: number;
}

/**
 * The handovers of a trial, in their order.
 *
 * @param leaseWrites the writes in the release's namespace, also of before
 * @param creations the creations of the trial's Jobs
 * @param sinceMs who took the Lease before is of no interest
 */
export function handovers(
  leaseWrites: readonly PodWrite[],
  creations: readonly PodWrite[],
  sinceMs: number,
): readonly Handover[] {
  const writes = leaseWrites.filter(({ resource, code }) => resource === 'leases' && code < 300);
  return writes.flatMap((taken, i) => {
    const last = writes[i - 1];
    const takenMs = Date.parse(taken.received);
    if (last === undefined || last.pod === taken.pod || takenMs < sinceMs) return [];
    const lastMs = Date.parse(last.received);
    const work = creations.find(({ pod, received }) => pod === taken.pod && received > taken.received);
    const workMs = work === undefined ? Number.POSITIVE_INFINITY : Date.parse(work.answered) - lastMs;
    return [{ from: last.pod, to: taken.pod, leaseMs: takenMs - lastMs, workMs }];
  });
}
