import type { Manifest, ObjectKey } from '../kind/index.ts';
import type { Lease } from '../kinds/index.ts';
import { type HolderContainer, readHolderContainer, writeHolderContainer } from './holder-container.ts';

/** What a candidate writes into a Lease, in client-go's words (LeaderElectionRecord of k8s.io/client-go/tools/leaderelection/resourcelock). */
export interface LeaseClaim {
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  /** The container that the holder runs in, where that is certain. */
  readonly container?: HolderContainer | undefined;
}

/** Who holds it; undefined when nobody does. */
export const holderOf = (lease: Lease): string | undefined => lease.spec?.holderIdentity || undefined;

/** The container of which the present holder says that it runs in. What an earlier one said does not count. */
export function containerOf(lease: Lease): HolderContainer | undefined {
  const holder = holderOf(lease);
  return holder === undefined ? undefined : readHolderContainer(lease.metadata.annotations, holder);
}

/** Whether the holder has renewed it, or another has taken it, between the two. Others' labels and annotations don't count. */
export function isSameClaim(one: Lease, other: Lease): boolean {
  return (
    one.metadata.uid === other.metadata.uid &&
    one.spec?.holderIdentity === other.spec?.holderIdentity &&
    one.spec?.renewTime === other.spec?.renewTime &&
    one.spec?.acquireTime === other.spec?.acquireTime &&
    one.spec?.leaseTransitions === other.spec?.leaseTransitions
  );
}

/** A new Lease, held by the claim's candidate. */
export function newLease(key: Required<ObjectKey>, claim: LeaseClaim): Manifest<Lease> {
  const now = microTime(new Date());
  return {
    metadata: { ...key, annotations: writeHolderContainer(undefined, claim.holderIdentity, claim.container) },
    spec: {
      holderIdentity: claim.holderIdentity,
      leaseDurationSeconds: claim.leaseDurationSeconds,
      acquireTime: now,
      renewTime: now,
      leaseTransitions: 0,
    },
  };
}

/**
 * The Lease as the claim's candidate wants to have it: renewed, or taken over. It carries the uid and the resourceVersion
 * of the one that it was made from, so that the write fails if anybody wrote meanwhile.
 */
export function claimed(lease: Lease, claim: LeaseClaim): Lease {
  const { holderIdentity, leaseDurationSeconds } = claim;
  const { metadata, spec } = lease;
  const now = microTime(new Date());
  const isHeld = spec?.holderIdentity === holderIdentity;
  const transitions = spec?.leaseTransitions ?? 0;
  const { name, namespace, uid, resourceVersion, creationTimestamp, labels, ownerReferences, finalizers } = metadata;
  return {
    // All but managedFields, which would make a small request a large one.
    metadata: {
      name,
      uid,
      resourceVersion,
      creationTimestamp,
      ...(namespace !== undefined && { namespace }),
      ...(labels !== undefined && { labels }),
      ...(ownerReferences !== undefined && { ownerReferences }),
      ...(finalizers !== undefined && { finalizers }),
      annotations: writeHolderContainer(metadata.annotations, holderIdentity, claim.container),
    },
    spec: {
      ...spec,
      holderIdentity,
      leaseDurationSeconds,
      renewTime: now,
      acquireTime: isHeld ? (spec.acquireTime ?? now) : now,
      leaseTransitions: isHeld ? transitions : transitions + 1,
    },
  };
}

/** The Lease as its holder leaves it, free for anybody at once: as client-go does, for one second rather than none. */
export function released(lease: Lease): Lease {
  const { leaseTransitions } = lease.spec ?? {};
  const free = claimed(lease, { holderIdentity: '', leaseDurationSeconds: 1 });
  return { ...free, spec: { ...free.spec, ...(leaseTransitions !== undefined && { leaseTransitions }) } };
}

/** As the API writes a MicroTime: six digits of a second, in UTC. */
const microTime = (date: Date): string => date.toISOString().replace('Z', '000Z');
