import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { WallClock } from './monotonic.ts';

/** The namespace of the Leases and ledgers. */
export const namespace = 'default';

/** Logs all writes to Leases and ledgers, with their request bodies. */
export const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: RequestResponse
    namespaces: [${namespace}]
    verbs: [create, update, patch, delete]
    resources: [{ group: coordination.k8s.io, resources: [leases] }]
  - level: Request
    namespaces: [${namespace}]
    verbs: [create, update, patch, delete]
    resources: [{ group: '', resources: [configmaps] }]
  - level: None
`;

/** The annotation of a ledger that names the candidate that wrote it. */
export const writerAnnotation = 'elections/writer';

/** The label of ConfigMaps that informers record in the journal. */
export const markLabel = 'elections-mark';

/** A time during which one candidate held a lock, in milliseconds of the monotonic clock. */
export interface Tenure {
  readonly lock: string;
  readonly identity: string;
  /** When the API server received the candidate's claim. */
  readonly from: number;
  /** When the API server received the holder's release or another candidate's claim. */
  readonly until: number;
  /** When the API server received the claim and each renewal. */
  readonly renewedAt: readonly number[];
}

/** A write to a lock's ledger, by the audit log. */
export interface LedgerWrite {
  readonly lock: string;
  readonly identity: string;
  /** The resourceVersion in the request. */
  readonly precondition: number;
  readonly code: number;
  readonly receivedAt: number;
}

/** The history of the locks, by the API server's audit log. */
export interface History {
  /** By lock, in order of time. */
  readonly tenures: ReadonlyMap<string, readonly Tenure[]>;
  readonly ledgerWrites: readonly LedgerWrite[];
  /** All write requests, by lock. */
  readonly leaseWrites: ReadonlyMap<string, readonly LeaseWrite[]>;
}

/** A write to a Lease, by the audit log. */
interface LeaseWrite {
  /** The resourceVersion in the request; 0 for a creation. */
  readonly precondition: number;
  /** The new resourceVersion; undefined if the response was no success. */
  readonly result: number | undefined;
  readonly code: number;
  readonly holder: string;
  readonly receivedAt: number;
}

interface AuditLine {
  readonly verb: string;
  readonly requestReceivedTimestamp: string;
  readonly objectRef: { readonly resource: string; readonly name?: string };
  readonly responseStatus?: { readonly code?: number };
  readonly requestObject?: AuditedObject;
  readonly responseObject?: AuditedObject;
}

interface AuditedObject {
  readonly metadata?: {
    readonly name?: string;
    readonly resourceVersion?: string;
    readonly annotations?: { readonly [name: string]: string };
  };
  readonly spec?: { readonly holderIdentity?: string };
}

/** A version of a lock's Lease, from a watch. */
export interface LeaseVersion {
  readonly version: number;
  readonly holder: string;
}

/**
 * Reads the history from an audit log.
 *
 * @param versions all versions of the Leases, by lock.
 * @throws Error if no write in the log explains a version.
 */
export async function readHistory(
  auditLog: string,
  versions: ReadonlyMap<string, readonly LeaseVersion[]>,
  clock: WallClock,
): Promise<History> {
  const leaseWrites = new Map<string, LeaseWrite[]>();
  const ledgerWrites: LedgerWrite[] = [];
  for await (const text of createInterface({ input: createReadStream(auditLog) })) {
    const line = JSON.parse(text) as AuditLine;
    const lock = line.objectRef.name ?? line.requestObject?.metadata?.name ?? '';
    if (line.objectRef.resource === 'leases') append(leaseWrites, lock, leaseWrite(line, clock));
    else if (line.requestObject !== undefined) ledgerWrites.push(ledgerWrite(lock, line, clock));
  }
  const tenures = new Map<string, readonly Tenure[]>();
  for (const [lock, its] of versions) {
    tenures.set(lock, tenuresOf(lock, writesBehind(lock, its, leaseWrites.get(lock) ?? [])));
  }
  return { tenures, ledgerWrites, leaseWrites };
}

function append<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

function leaseWrite(line: AuditLine, clock: WallClock): LeaseWrite {
  const { verb, requestObject, responseObject, responseStatus, requestReceivedTimestamp } = line;
  const code = responseStatus?.code ?? 0;
  const precondition = Number(requestObject?.metadata?.resourceVersion ?? (verb === 'create' ? 0 : Number.NaN));
  if (Number.isNaN(precondition))
    throw new Error(`a write to a Lease without a resourceVersion: ${JSON.stringify(line)}`);
  const receivedAt = clock.toMonotonicMs(requestReceivedTimestamp);
  const holder = requestObject?.spec?.holderIdentity ?? '';
  return { precondition, code, holder, receivedAt, result: isSuccess(code) ? versionOf(responseObject) : undefined };
}

function ledgerWrite(lock: string, line: AuditLine, clock: WallClock): LedgerWrite {
  const { requestObject, responseStatus, requestReceivedTimestamp } = line;
  return {
    lock,
    identity: requestObject?.metadata?.annotations?.[writerAnnotation] ?? '',
    precondition: versionOf(requestObject),
    code: responseStatus?.code ?? 0,
    receivedAt: clock.toMonotonicMs(requestReceivedTimestamp),
  };
}

export const isSuccess = (code: number): boolean => code >= 200 && code < 300;

const versionOf = (object: AuditedObject | undefined): number => Number(object?.metadata?.resourceVersion ?? 0);

/**
 * The write behind each version. The audit log shows an error for a write that was executed although its client
 * disconnected; then it is the write that was based on the version before and named that holder.
 */
function writesBehind(
  lock: string,
  versions: readonly LeaseVersion[],
  writes: readonly LeaseWrite[],
): readonly LeaseWrite[] {
  let before = 0;
  return versions.map(({ version, holder }) => {
    const mayHaveSucceeded = (write: LeaseWrite) =>
      write.result === undefined && write.precondition === before && write.holder === holder;
    const write = writes.find(({ result }) => result === version) ?? writes.find(mayHaveSucceeded);
    if (write === undefined) throw new Error(`${lock}: the audit log has no write for version ${version}`);
    before = version;
    return write;
  });
}

function tenuresOf(lock: string, changes: readonly LeaseWrite[]): readonly Tenure[] {
  const tenures: Tenure[] = [];
  let current: { readonly identity: string; readonly from: number; readonly renewedAt: number[] } | undefined;
  for (const { holder, receivedAt } of changes) {
    if (holder === current?.identity) {
      current.renewedAt.push(receivedAt);
      continue;
    }
    if (current !== undefined) tenures.push({ lock, ...current, until: receivedAt });
    current = holder === '' ? undefined : { identity: holder, from: receivedAt, renewedAt: [receivedAt] };
  }
  if (current !== undefined) tenures.push({ lock, ...current, until: Number.POSITIVE_INFINITY });
  return tenures;
}

/** Formats the writes to a lock's Lease around a time. */
export function formatLeaseWrites(history: History, lock: string, aroundMs: number, withinMs: number): string {
  const writes = (history.leaseWrites.get(lock) ?? []).filter(
    ({ receivedAt }) => Math.abs(receivedAt - aroundMs) <= withinMs,
  );
  const lines = writes
    .toSorted((one, other) => one.receivedAt - other.receivedAt)
    .map(({ receivedAt, holder, precondition, result, code }) => {
      const at = `${(receivedAt - aroundMs).toFixed(1)} ms`.padStart(12);
      return `${at}  ${code}  ${precondition} → ${result ?? 'no response'}  ${holder === '' ? '(released)' : holder}`;
    });
  return [`${lock}, by the API server's audit log, relative to the violation:`, ...lines].join('\n');
}
