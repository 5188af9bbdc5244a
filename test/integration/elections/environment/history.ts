import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { WallClock } from './monotonic.ts';

/** Where the Leases and the ledgers are. */
export const namespace = 'default';

/** All writes to Leases and ledgers, with what they asked for. */
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

/** On a ledger: the candidate whose write it is. */
export const writerAnnotation = 'elections/writer';

/** On a ConfigMap that an informer is to tell of. */
export const markLabel = 'elections-mark';

/** A time during which one candidate held a lock, in milliseconds of the monotonic clock. */
export interface Tenure {
  readonly lock: string;
  readonly identity: string;
  /** When the API server received the request that made it the holder. */
  readonly from: number;
  /** When the API server received the request that ended it: the holder's release, or another's acquisition. */
  readonly until: number;
  /** When the API server received its writes to the Lease, the acquisition first, the last renewal last. */
  readonly renewedAt: readonly number[];
}

/** A write to a lock's ledger, as the API server saw it. */
export interface LedgerWrite {
  readonly lock: string;
  readonly identity: string;
  /** The resourceVersion that the ledger had to have. */
  readonly precondition: number;
  readonly code: number;
  readonly receivedAt: number;
}

/** What became of the locks, by the API server's audit log. */
export interface History {
  /** Of each lock, in their order. */
  readonly tenures: ReadonlyMap<string, readonly Tenure[]>;
  readonly ledgerWrites: readonly LedgerWrite[];
  /** All that was asked for, by lock. */
  readonly leaseWrites: ReadonlyMap<string, readonly LeaseWrite[]>;
}

/** A write to a Lease, as the API server saw it. */
export interface LeaseWrite {
  /** The resourceVersion that the Lease had to have; 0 for its creation. */
  readonly precondition: number;
  /** Undefined for one that was not answered with success. */
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

/** A version of a lock's Lease. A watch tells of each, in order. */
export interface LeaseVersion {
  readonly version: number;
  readonly holder: string;
}

/**
 * @param versions all of them, by lock.
 * @throws Error where a Lease has a version that no write in the log can have made.
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
 * The write that has made each version. One that was carried out while its sender went away is answered with an error all
 * the same: where no answer tells of a version, it is what was based on the version before and asked for that holder.
 */
function writesBehind(
  lock: string,
  versions: readonly LeaseVersion[],
  writes: readonly LeaseWrite[],
): readonly LeaseWrite[] {
  let before = 0;
  return versions.map(({ version, holder }) => {
    const unanswered = (write: LeaseWrite) =>
      write.result === undefined && write.precondition === before && write.holder === holder;
    const write = writes.find(({ result }) => result === version) ?? writes.find(unanswered);
    if (write === undefined) throw new Error(`${lock}: who has made version ${version} is not in the audit log`);
    before = version;
    return write;
  });
}

function tenuresOf(lock: string, changes: readonly LeaseWrite[]): readonly Tenure[] {
  const tenures: Tenure[] = [];
  let held: { readonly identity: string; readonly from: number; readonly renewedAt: number[] } | undefined;
  for (const { holder, receivedAt } of changes) {
    if (holder === held?.identity) {
      held.renewedAt.push(receivedAt);
      continue;
    }
    if (held !== undefined) tenures.push({ lock, ...held, until: receivedAt });
    held = holder === '' ? undefined : { identity: holder, from: receivedAt, renewedAt: [receivedAt] };
  }
  if (held !== undefined) tenures.push({ lock, ...held, until: Number.POSITIVE_INFINITY });
  return tenures;
}

/** What became of a lock around a moment, for people: the writes to its Lease that reached the API server. */
export function accountOf(history: History, lock: string, aroundMs: number, withinMs: number): string {
  const writes = (history.leaseWrites.get(lock) ?? []).filter(
    ({ receivedAt }) => Math.abs(receivedAt - aroundMs) <= withinMs,
  );
  const lines = writes
    .toSorted((one, other) => one.receivedAt - other.receivedAt)
    .map(({ receivedAt, holder, precondition, result, code }) => {
      const at = `${(receivedAt - aroundMs).toFixed(1)} ms`.padStart(12);
      return `${at}  ${code}  ${precondition} → ${result ?? 'nothing told'}  ${holder === '' ? '(released)' : holder}`;
    });
  return [`${lock}, by the API server's audit log, from the moment that counts on:`, ...lines].join('\n');
}
