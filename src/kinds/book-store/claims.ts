import { type Client, controllerOf, type KubeObject, keyOf, type ObjectKey } from '@echoperator/runtime';
import { type ApiError, groupOf, isRefusal, listPages } from '@echoperator/runtime/client';
import { compareQuantities } from '@echoperator/runtime/controller';
import { PersistentVolumeClaim, StatefulSet } from '@echoperator/runtime/kinds';
import { identityOf } from '../shared/cached-fields.ts';
import type { BookStoreContext } from './context.ts';
import { bookStoreUidLabel, type DatabaseSpec, selectorLabels, statefulSetKey, volumeName } from './desired.ts';
import type { BookStore } from './kind.ts';

/** The StatefulSet controller writes ordinals without leading zeros. */
const claimNamePattern = new RegExp(`^${volumeName}-(.+)-(0|[1-9]\\d{0,8})$`);

/** The StatefulSet whose pod uses a claim. It follows from the name of the claim, whoever created that. */
export function statefulSetOfClaim(claim: PersistentVolumeClaim): ObjectKey | undefined {
  const [, name] = claimNamePattern.exec(claim.metadata.name) ?? [];
  return name === undefined ? undefined : { ...keyOf(claim), name };
}

/** Those by which a BookStore finds the claims that its StatefulSet created. */
const readLabels = [
  'app.kubernetes.io/name',
  'app.kubernetes.io/instance',
  'app.kubernetes.io/component',
  bookStoreUidLabel,
];

/** Keeps only the fields that a controller reads: of a claim without the name of a StatefulSet's, the identity. */
export function keepReadFields(claim: PersistentVolumeClaim): PersistentVolumeClaim {
  const { metadata, spec, status } = claim;
  if (statefulSetOfClaim(claim) === undefined) return { metadata: identityOf(metadata) };
  const { resources, storageClassName, volumeName } = spec ?? {};
  const { phase, capacity, conditions, allocatedResourceStatuses } = status ?? {};
  return {
    metadata: identityOf(metadata, readLabels),
    spec: {
      ...(resources?.requests && { resources: { requests: storageOf(resources.requests) } }),
      ...(storageClassName !== undefined && { storageClassName }),
      ...(volumeName !== undefined && { volumeName }),
    },
    status: {
      ...(phase !== undefined && { phase }),
      ...(capacity && { capacity: storageOf(capacity) }),
      ...(allocatedResourceStatuses && { allocatedResourceStatuses: storageOf(allocatedResourceStatuses) }),
      ...(conditions && { conditions }),
    },
  };
}

/** A claim may ask for any number of other resources. */
const storageOf = ({ storage }: Readonly<Record<string, string>>): Record<string, string> =>
  storage === undefined ? {} : { storage };

/** The ordinal of the pod that uses the claim. */
export const ordinalOf = ({ metadata }: KubeObject): number => Number(claimNamePattern.exec(metadata.name)?.[2]);

/** The name of the pod that uses the claim. */
export const podNameOf = ({ metadata }: KubeObject): string => metadata.name.slice(`${volumeName}-`.length);

/** True if the claim has a controller other than the StatefulSet in its name. */
export function isForeign(claim: PersistentVolumeClaim): boolean {
  const controller = controllerOf(claim);
  if (controller === undefined) return false;
  const { apiVersion, kind, name } = controller;
  const isStatefulSet = groupOf(apiVersion) === StatefulSet.group && kind === StatefulSet.kind;
  return !isStatefulSet || name !== statefulSetOfClaim(claim)?.name;
}

/**
 * False for a claim that another controller controls, and for one that is being deleted. The operator does not change
 * such a claim, and does not restart its pod: that would complete the deletion.
 */
export const mayResize = (claim: PersistentVolumeClaim): boolean =>
  claim.metadata.deletionTimestamp === undefined && !isForeign(claim);

/**
 * All claims that have the names of a BookStore's StatefulSet, from the API server, with the fields that are read,
 * whoever created them.
 */
export async function listClaims(client: Client, bookStore: BookStore): Promise<readonly PersistentVolumeClaim[]> {
  const { namespace = '', name } = statefulSetKey(bookStore);
  const claims: PersistentVolumeClaim[] = [];
  // A list, because there may be any number of replicas.
  for await (const { items } of listPages(client, PersistentVolumeClaim, { namespace })) {
    claims.push(...items.filter((claim) => statefulSetOfClaim(claim)?.name === name).map(keepReadFields));
  }
  return claims;
}

/**
 * The claims of a BookStore's database, sorted by ordinal. A pod uses the claim of its name, whoever created it; beyond
 * the replicas, only claims that a StatefulSet of the BookStore created count.
 *
 * @param named all claims that have the names of the BookStore's StatefulSet.
 */
export function claimsOfDatabase(
  named: Iterable<PersistentVolumeClaim>,
  bookStore: BookStore,
  replicas: number,
): readonly PersistentVolumeClaim[] {
  const labels = Object.entries(selectorLabels(bookStore, 'database'));
  const isCreated = ({ metadata }: PersistentVolumeClaim): boolean =>
    labels.every(([label, value]) => metadata.labels?.[label] === value);
  const claims = [...named].filter((claim) => ordinalOf(claim) < replicas || isCreated(claim));
  return claims.sort((one, other) => ordinalOf(one) - ordinalOf(other));
}

/** The claims of the pods that the spec asks for. The other claims belong to pods that a scale-down removed. */
export const claimsWithinReplicas = (
  claims: readonly PersistentVolumeClaim[],
  replicas: number,
): readonly PersistentVolumeClaim[] => claims.filter((claim) => ordinalOf(claim) < replicas);

export const requestOf = ({ spec }: PersistentVolumeClaim): string => spec?.resources?.requests?.storage ?? '0';

/**
 * `status.capacity`: the size that the pod sees. It changes when the growth is complete, that of the file system
 * included.
 */
export const capacityOf = ({ status }: PersistentVolumeClaim): string => status?.capacity?.storage ?? '0';

/** True if the claim's capacity is at least `size`. The PersistentVolume may already be larger. */
export const hasCapacity = (claim: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(capacityOf(claim), size) >= 0;

export const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

/** True if the PersistentVolume that the claim was bound to does not exist. The claim has no capacity then. */
export const isLost = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Lost';

/** True if the claim is bound, its capacity is below `size`, and the operator may resize it. */
export const mustGrow = (claim: PersistentVolumeClaim, size: string): boolean =>
  mayResize(claim) && isBound(claim) && !hasCapacity(claim, size);

/** A claim that does not have the request that the operator sent. */
export interface RefusedClaim {
  readonly claim: PersistentVolumeClaim;
  /** Undefined if the API server accepted the request and stored another, as a mutating webhook can make it do. */
  readonly error?: ApiError;
}

/** The result of {@link setClaimRequests}. */
export interface RequestPatches {
  /** All claims after the patches. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** The refusals for claims within the replicas. */
  readonly refusals: readonly RefusedClaim[];
  /**
   * The refusals for claims of removed replicas. The status reports them, but they do not make the BookStore unready.
   */
  readonly removedReplicaRefusals: readonly RefusedClaim[];
  /** True if a claim was not patched because the cached BookStore is stale. */
  readonly isBookStoreStale: boolean;
}

/**
 * Sets the request of each claim whose capacity is below `dbSize` to `dbSize`. This also lowers a larger request, which
 * must stay above the capacity (KEP-1790), to undo a size that the storage cannot provide.
 *
 * Patches the claims instead of applying them, because the StatefulSet controller created them. Each patch has the uid
 * and the resourceVersion as preconditions. Skips claims without a volume, because the API server does not let them
 * grow, and those that are being deleted or another controller's.
 *
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function setClaimRequests(
  context: Pick<BookStoreContext, 'client' | 'isCurrent'>,
  { size, replicas }: DatabaseSpec,
  claims: readonly PersistentVolumeClaim[],
): Promise<RequestPatches> {
  const patched: PersistentVolumeClaim[] = [];
  const refusals: RefusedClaim[] = [];
  let isBookStoreStale = false;
  for (const claim of claims) {
    if (!mustGrow(claim, size) || compareQuantities(requestOf(claim), size) === 0) {
      patched.push(claim);
      continue;
    }
    try {
      const response = await setRequest(context, claim, size);
      patched.push(response ?? claim);
      if (response === undefined) isBookStoreStale = true;
      else if (compareQuantities(requestOf(response), size) !== 0) refusals.push({ claim: response });
    } catch (error) {
      if (!isRefusal(error)) throw error;
      patched.push(claim);
      refusals.push({ claim, error });
    }
  }
  const isWithinReplicas = ({ claim }: RefusedClaim): boolean => ordinalOf(claim) < replicas;
  return {
    claims: patched,
    refusals: refusals.filter(isWithinReplicas),
    removedReplicaRefusals: refusals.filter((refusal) => !isWithinReplicas(refusal)),
    isBookStoreStale,
  };
}

/** Returns the claim as the API server stored it. Undefined if the cached BookStore is stale. */
async function setRequest(
  { client, isCurrent }: Pick<BookStoreContext, 'client' | 'isCurrent'>,
  claim: PersistentVolumeClaim,
  size: string,
): Promise<PersistentVolumeClaim | undefined> {
  // A volume never shrinks, and the cached BookStore may be an earlier one of this name with another size: read it
  // first.
  if (!(await isCurrent())) return undefined;
  const { uid, resourceVersion } = claim.metadata;
  const body = { metadata: { uid, resourceVersion }, spec: { resources: { requests: { storage: size } } } };
  return client.patch(PersistentVolumeClaim, keyOf(claim), { type: 'merge', body });
}

interface ClaimGrowth {
  readonly claimName: string;
  /** The pod that uses the claim. */
  readonly podName: string;
  readonly capacity: string;
  /** Not always `dbSize`: the API server may refuse that while the volume still grows to an earlier size. */
  readonly request: string;
  /**
   * What external-resizer or the kubelet reports, for example `ControllerResizeError, ControllerResizeInfeasible: no
   * room`.
   */
  readonly error?: string;
}

/** A claim whose volume has grown, but whose file system has not. The kubelet has to grow it, and still tries to. */
export interface PendingFileSystem extends ClaimGrowth {
  readonly state: 'fileSystem';
  /** When the condition became true, in milliseconds since 1970. 0 if unknown: then the pod is not restarted. */
  readonly sinceMs: number;
}

/** A claim whose capacity is below both `dbSize` and its request. */
export type GrowingClaim =
  /** The storage driver has to grow the volume. */
  | (ClaimGrowth & { readonly state: 'driver' })
  | PendingFileSystem
  /**
   * The driver cannot grow the volume on its node. The kubelet does not retry until external-resizer has reset the
   * status, not even when it mounts the volume (`runPreCheck` in node_expander.go).
   */
  | (ClaimGrowth & { readonly state: 'nodeInfeasible'; readonly error: string });

/**
 * The progress of a claim according to external-resizer and the kubelet. Undefined if it does not grow.
 *
 * `FileSystemResizePending` is True from when the volume has grown until the kubelet has grown the file system. If the
 * driver supports it, the kubelet does that within seconds and while the pod runs
 * (k8s.io/kubernetes/pkg/volume/util/resize_util.go). A `NodeResizeError` beside it may come from a driver that grows a
 * file system only at mount.
 */
export function growthOf(claim: PersistentVolumeClaim, size: string): GrowingClaim | undefined {
  if (!mustGrow(claim, size) || hasCapacity(claim, requestOf(claim))) return undefined;
  // For example `NodeResizePending`. Empty before Kubernetes 1.32.
  const resizeStatus = claim.status?.allocatedResourceStatuses?.storage ?? '';
  // If a retry of external-resizer succeeds, it leaves its earlier error beside FileSystemResizePending
  // (`markForPendingNodeExpansion`) until the kubelet has finished.
  const errorTypes = resizeStatus.startsWith('NodeResize')
    ? ['NodeResizeError']
    : ['ControllerResizeError', 'NodeResizeError'];
  const failure = trueCondition(claim, errorTypes);
  const type = [failure?.type, resizeStatus].filter(Boolean).join(', ');
  const error = failure?.message ? `${type}: ${failure.message}` : type;
  const growth: ClaimGrowth = {
    claimName: claim.metadata.name,
    podName: podNameOf(claim),
    capacity: capacityOf(claim),
    request: requestOf(claim),
    ...((failure !== undefined || resizeStatus.endsWith('Infeasible')) && { error }),
  };
  if (resizeStatus === 'NodeResizeInfeasible') return { ...growth, state: 'nodeInfeasible', error };
  const pending = trueCondition(claim, ['FileSystemResizePending']);
  if (pending === undefined) return { ...growth, state: 'driver' };
  return { ...growth, state: 'fileSystem', sinceMs: Date.parse(pending.lastTransitionTime ?? '') || 0 };
}

const trueCondition = ({ status }: PersistentVolumeClaim, types: readonly string[]) =>
  status?.conditions?.find((condition) => condition.status === 'True' && types.includes(condition.type));

/** For example `data-shop-db-0 from 1Gi to 2Gi`. */
export const describeGrowth = ({ claimName, capacity, request }: ClaimGrowth): string =>
  `${claimName} from ${capacity} to ${request}`;
