import type { Lease } from '../built-in-kinds/built-in-kinds.ts';
import { microTime } from '../kind/micro-time.ts';
import type { Manifest, ObjectKey } from '../kind/object.ts';

/**
 * What a candidate writes to a Lease, with client-go's field names (LeaderElectionRecord of
 * k8s.io/client-go/tools/leaderelection/resourcelock).
 */
export interface LeaseClaim {
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  /** Default: the wall clock. */
  readonly renewTime?: Date;
  /** Labels to set. Other labels stay. */
  readonly labels?: LeaseMetadata['labels'] | undefined;
  /** Annotations to set; undefined removes one. Other annotations stay. */
  readonly annotations?: Readonly<Record<string, string | undefined>>;
}

/** What a candidate sets on the Lease with every claim. */
export interface LeaseMetadata {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The holder's identity; undefined if nobody holds the Lease. */
export const holderOf = (lease: Lease): string | undefined => lease.spec?.holderIdentity || undefined;

/**
 * Whether no candidate has renewed or taken the Lease between the two versions. Labels and annotations do not count.
 */
export function isSameClaim(one: Lease, other: Lease): boolean {
  return (
    one.metadata.uid === other.metadata.uid &&
    one.spec?.holderIdentity === other.spec?.holderIdentity &&
    one.spec?.renewTime === other.spec?.renewTime &&
    one.spec?.acquireTime === other.spec?.acquireTime &&
    one.spec?.leaseTransitions === other.spec?.leaseTransitions
  );
}

/**
 * A manifest for a new Lease that the claim's candidate holds. It continues the transition count of a deleted Lease.
 * client-go starts again at 0, which looks like many transitions to a program that subtracts two counts.
 *
 * @param last the last observed Lease. Absent: the candidate has observed none.
 */
export function buildNewLease(key: Required<ObjectKey>, claim: LeaseClaim, last?: Lease): Manifest<Lease> {
  const now = microTime(claim.renewTime ?? new Date());
  return {
    metadata: {
      ...key,
      ...(claim.labels !== undefined && { labels: claim.labels }),
      annotations: mergeAnnotations({}, claim.annotations),
    },
    spec: {
      holderIdentity: claim.holderIdentity,
      leaseDurationSeconds: claim.leaseDurationSeconds,
      acquireTime: now,
      renewTime: now,
      leaseTransitions: last === undefined ? 0 : transitionsOf(last, claim),
    },
  };
}

/**
 * The Lease with the claim: renewed if the candidate already holds it, otherwise taken over. It keeps the uid and
 * resourceVersion, so the update fails if somebody has written to the Lease in the meantime.
 */
export function buildClaimedLease(lease: Lease, claim: LeaseClaim): Lease {
  const { holderIdentity, leaseDurationSeconds } = claim;
  const { metadata, spec } = lease;
  const now = microTime(claim.renewTime ?? new Date());
  const isHeld = spec?.holderIdentity === holderIdentity;
  const { name, namespace, uid, resourceVersion, creationTimestamp, ownerReferences, finalizers } = metadata;
  const labels = claim.labels === undefined ? metadata.labels : { ...metadata.labels, ...claim.labels };
  return {
    // Without managedFields, which would multiply the size of the request.
    metadata: {
      name,
      uid,
      resourceVersion,
      creationTimestamp,
      ...(namespace !== undefined && { namespace }),
      ...(labels !== undefined && { labels }),
      ...(ownerReferences !== undefined && { ownerReferences }),
      ...(finalizers !== undefined && { finalizers }),
      annotations: mergeAnnotations(metadata.annotations, claim.annotations),
    },
    spec: {
      ...spec,
      holderIdentity,
      leaseDurationSeconds,
      renewTime: now,
      acquireTime: isHeld ? (spec.acquireTime ?? now) : now,
      leaseTransitions: transitionsOf(lease, claim),
    },
  };
}

/** How often the Lease has changed its holder once the claim's candidate holds it. */
const transitionsOf = ({ spec }: Lease, { holderIdentity }: LeaseClaim): number =>
  (spec?.leaseTransitions ?? 0) + (spec?.holderIdentity === holderIdentity ? 0 : 1);

/**
 * The Lease without a holder, which any candidate may take at once. Like client-go's, it has a duration of one second,
 * because the API requires a positive one.
 */
export function buildReleasedLease(lease: Lease, annotations: LeaseClaim['annotations'] = {}): Lease {
  const { leaseTransitions } = lease.spec ?? {};
  const claimed = buildClaimedLease(lease, { holderIdentity: '', leaseDurationSeconds: 1, annotations });
  return { ...claimed, spec: { ...claimed.spec, ...(leaseTransitions !== undefined && { leaseTransitions }) } };
}

function mergeAnnotations(
  annotations: Readonly<Record<string, string>> = {},
  changes: LeaseClaim['annotations'] = {},
): Readonly<Record<string, string>> {
  const merged = Object.entries({ ...annotations, ...changes });
  return Object.fromEntries(merged.filter((entry): entry is [string, string] => entry[1] !== undefined));
}
