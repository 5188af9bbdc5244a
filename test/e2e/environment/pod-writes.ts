import type { AuditEvent, AuditLog } from '../../../tools/cluster/index.ts';

/** A write of one of the operator's pods in the API server's audit log. */
export interface PodWrite {
  readonly pod: string;
  readonly verb: string;
  readonly resource: string;
  readonly name: string;
  readonly code: number;
  /** When the API server received and answered the request, by its clock: RFC 3339 with microseconds. */
  readonly received: string;
  readonly answered: string;
}

const podName = 'authentication.kubernetes.io/pod-name';

/** Returns the writes of the operator's pods in a namespace, in the order in which the API server received them. */
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

/** Returns the writes that created a Job. */
export const jobCreations = (writes: readonly PodWrite[]): readonly PodWrite[] =>
  writes.filter(({ verb, resource, code }) => verb === 'create' && resource === 'jobs' && code === 201);

/**
 * Returns the writes that changed something. A leader's write may arrive late, and is then refused. Events may be late
 * because they only describe the past.
 */
export const effective = (writes: readonly PodWrite[]): readonly PodWrite[] =>
  writes.filter(({ code, resource }) => code < 300 && resource !== 'events');

/** Returns the pods in the order of their writes, without consecutive repetitions. */
export function turns(writes: readonly PodWrite[]): readonly string[] {
  return writes.map(({ pod }) => pod).filter((pod, i, all) => pod !== all[i - 1]);
}

/**
 * Returns the longest time without a new Job, in milliseconds.
 *
 * @param sinceMs ignores gaps that end before
 */
export function longestGapMs(creations: readonly PodWrite[], sinceMs: number): number {
  const stamps = creations.map(({ answered }) => Date.parse(answered)).sort((a, b) => a - b);
  const gaps = stamps.flatMap((stamp, i) => (i > 0 && stamp >= sinceMs ? [stamp - (stamps[i - 1] ?? stamp)] : []));
  return Math.max(0, ...gaps);
}

/** A change of the leader, by the API server's clock. */
export interface Handover {
  readonly from: string;
  readonly to: string;
  /** From the former leader's last write to the Lease (release or renewal) to the new leader's first. */
  readonly leaseMs: number;
  /** From the same moment to the new leader's first Job. Infinity if it created none. */
  readonly workMs: number;
}

/**
 * Returns the handovers of a trial in their order.
 *
 * @param leaseWrites the writes in the release's namespace, including earlier ones
 * @param creations the creations of the trial's Jobs
 * @param sinceMs ignores earlier handovers
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
