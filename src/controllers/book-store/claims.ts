import { BookStore } from '../../api/index.ts';
import { type ApiError, groupOf, isRefusal } from '../../runtime/client/index.ts';
import { compareQuantities, isCurrent } from '../../runtime/controller/index.ts';
import { type Client, controllerOf, type KubeObject, keyOf, type ObjectKey } from '../../runtime/index.ts';
import { PersistentVolumeClaim, StatefulSet } from '../../runtime/kinds/index.ts';
import { type Settings, volumeName } from './desired.ts';

/** The StatefulSet controller writes ordinals without leading zeros. */
const claimName = new RegExp(`^${volumeName}-(.+)-(0|[1-9]\\d{0,8})$`);

/** The StatefulSet whose pod uses a claim. It follows from the name of the claim, whoever created that. */
export function statefulSetOfClaim(claim: PersistentVolumeClaim): ObjectKey | undefined {
  const [, name] = claimName.exec(claim.metadata.name) ?? [];
  return name === undefined ? undefined : { ...keyOf(claim), name };
}

/** The ordinal of the pod that uses the claim. */
export const ordinalOf = ({ metadata }: KubeObject): number => Number(claimName.exec(metadata.name)?.[2]);

/** True if the claim has a controller other than the StatefulSet in its name. */
export function isForeign(claim: PersistentVolumeClaim): boolean {
  const controller = controllerOf(claim);
  if (controller === undefined) return false;
  const { apiVersion, kind, name } = controller;
  const isStatefulSet = groupOf(apiVersion) === StatefulSet.group && kind === StatefulSet.kind;
  return !isStatefulSet || name !== statefulSetOfClaim(claim)?.name;
}

/** True if the operator grows the claim. The restart of its pod would complete the deletion of a claim that is being deleted. */
export const isGrown = (claim: PersistentVolumeClaim): boolean =>
  claim.metadata.deletionTimestamp === undefined && !isForeign(claim);

/** The claims of the pods that the spec asks for. The other claims belong to pods that a scale-down removed. */
export const claimsWithinReplicas = (
  claims: readonly PersistentVolumeClaim[],
  { database }: Settings,
): readonly PersistentVolumeClaim[] => claims.filter((claim) => ordinalOf(claim) < database.replicas);

export const requestOf = ({ spec }: PersistentVolumeClaim): string => spec?.resources?.requests?.storage ?? '0';

export const capacityOf = ({ status }: PersistentVolumeClaim): string => status?.capacity?.storage ?? '0';

/** True if the volume has at least this size, whatever the claim requests. */
export const hasCapacity = (claim: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(capacityOf(claim), size) >= 0;

const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

/** True if the PersistentVolume that the claim was bound to does not exist. The claim has no capacity then. */
const isLost = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Lost';

export const wasBound = (claim: PersistentVolumeClaim): boolean => isBound(claim) || isLost(claim);

/** A claim whose request the API server refused to change. */
export interface RefusedClaim {
  readonly claim: PersistentVolumeClaim;
  readonly error: ApiError;
}

/** The result of {@link setClaimRequests}. */
export interface ResizeResult {
  /** All claims after the patches. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** The refusals for claims within the replicas. */
  readonly refusals: readonly RefusedClaim[];
  /** The refusals for claims of removed replicas. The status reports them, but they do not make the BookStore unready. */
  readonly removedReplicaRefusals: readonly RefusedClaim[];
}

/**
 * Sets the request of each claim whose volume is smaller than `dbSize` to `dbSize`. This also lowers a larger request (KEP-1790), to undo
 * a size that the storage cannot provide.
 *
 * Patches the claims instead of applying them, because the StatefulSet controller created them. Each patch has the uid and the
 * resourceVersion as preconditions. Skips claims without a volume, because the API server does not let them grow, and those that are
 * being deleted or another controller's.
 *
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function setClaimRequests(
  client: Client,
  bookStore: BookStore,
  { database }: Settings,
  claims: readonly PersistentVolumeClaim[],
): Promise<ResizeResult> {
  const patched: PersistentVolumeClaim[] = [];
  const refusals: RefusedClaim[] = [];
  for (const claim of claims) {
    try {
      patched.push(await setRequest(client, bookStore, claim, database.size));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      patched.push(claim);
      refusals.push({ claim, error });
    }
  }
  const isWithinReplicas = ({ claim }: RefusedClaim): boolean => ordinalOf(claim) < database.replicas;
  return {
    claims: patched,
    refusals: refusals.filter(isWithinReplicas),
    removedReplicaRefusals: refusals.filter((refusal) => !isWithinReplicas(refusal)),
  };
}

async function setRequest(
  client: Client,
  bookStore: BookStore,
  claim: PersistentVolumeClaim,
  size: string,
): Promise<PersistentVolumeClaim> {
  if (!isGrown(claim) || !isBound(claim) || compareQuantities(requestOf(claim), size) === 0) return claim;
  // The volume may be larger than its request. And a request may only shrink if it stays above the capacity (KEP-1790).
  if (hasCapacity(claim, size)) return claim;
  // A volume never shrinks, and the cached BookStore may be an earlier one of this name with another size: read it first.
  if (!(await isCurrent(client, BookStore, bookStore))) return claim;
  const { uid, resourceVersion } = claim.metadata;
  const body = { metadata: { uid, resourceVersion }, spec: { resources: { requests: { storage: size } } } };
  return client.patch(PersistentVolumeClaim, keyOf(claim), { type: 'merge', body });
}

/** A volume that has grown, but whose file system has not. */
export interface FileSystemResize {
  readonly claim: string;
  readonly ordinal: number;
  /** The size of the file system. */
  readonly capacity: string;
  /** When the condition became true, in milliseconds since 1970. 0 if unknown: then the pod is not restarted. */
  readonly sinceMs: number;
}

/** A volume that is smaller than `dbSize`. */
export interface SmallVolume {
  readonly claim: string;
  readonly capacity: string;
}

/** The progress of the growing volumes. */
export interface ResizeProgress {
  /** Excludes claims that have no volume yet. */
  readonly unfinished: readonly SmallVolume[];
  /** Those of the unfinished volumes whose file systems the kubelet has to grow, and still may. */
  readonly fileSystems: readonly FileSystemResize[];
  /** Those of the unfinished volumes that fail to grow or are lost, with the message of external-resizer or the kubelet. */
  readonly failures: readonly (SmallVolume & { readonly message: string })[];
}

/**
 * The types of the conditions that report an error. If a retry of external-resizer succeeds, it leaves its earlier error beside
 * `FileSystemResizePending` (`markForPendingNodeExpansion`) until the kubelet has finished.
 */
const errorConditionsOf = (claim: PersistentVolumeClaim): readonly string[] =>
  resizeStatusOf(claim).startsWith('NodeResize') ? ['NodeResizeError'] : ['ControllerResizeError', 'NodeResizeError'];

/**
 * The progress of the claims according to external-resizer and the kubelet. `status.capacity` is the size that the pod sees.
 * `FileSystemResizePending` is True from when the volume has grown until the kubelet has grown the file system. If the driver
 * supports it, the kubelet does that within seconds and while the pod runs (k8s.io/kubernetes/pkg/volume/util/resize_util.go).
 */
export function resizeProgressOf(claims: readonly PersistentVolumeClaim[], size: string): ResizeProgress {
  const unfinished = claims.filter((claim) => isGrown(claim) && wasBound(claim) && !hasCapacity(claim, size));
  return {
    unfinished: unfinished.map(smallVolume),
    fileSystems: unfinished.flatMap((claim) => {
      const condition = trueCondition(claim, ['FileSystemResizePending']);
      if (condition === undefined || isInfeasible(claim) || isLost(claim)) return [];
      const sinceMs = Date.parse(condition.lastTransitionTime ?? '') || 0;
      return [{ ...smallVolume(claim), ordinal: ordinalOf(claim), sinceMs }];
    }),
    failures: unfinished.flatMap((claim) => {
      const message = failureOf(claim);
      return message === undefined ? [] : [{ ...smallVolume(claim), message }];
    }),
  };
}

function failureOf(claim: PersistentVolumeClaim): string | undefined {
  if (isLost(claim)) {
    return `PersistentVolume ${claim.spec?.volumeName} does not exist any more. Restore it. If nobody needs its data, delete the claim and then the pod instead`;
  }
  const condition = trueCondition(claim, errorConditionsOf(claim));
  return condition && (condition.message || condition.type);
}

/** Which part of the growth is under way or has failed, for example `NodeResizePending`. Empty before Kubernetes 1.32. */
const resizeStatusOf = ({ status }: PersistentVolumeClaim): string => status?.allocatedResourceStatuses?.storage ?? '';

/**
 * True if the driver cannot grow the volume on its node: the kubelet does not try again, not even when it mounts the volume
 * (`runPreCheck` in node_expander.go), until external-resizer has reset the status. Any other `NodeResizeError` may be of a driver
 * that grows a file system only at mount.
 */
const isInfeasible = (claim: PersistentVolumeClaim): boolean => resizeStatusOf(claim) === 'NodeResizeInfeasible';

const smallVolume = (claim: PersistentVolumeClaim): SmallVolume => ({
  claim: claim.metadata.name,
  capacity: capacityOf(claim),
});

const trueCondition = ({ status }: PersistentVolumeClaim, types: readonly string[]) =>
  status?.conditions?.find((condition) => condition.status === 'True' && types.includes(condition.type));

/** For example `data-shop-db-0 from 1Gi to 2Gi`. */
export const describeGrowth = ({ claim, capacity }: SmallVolume, { database }: Settings): string =>
  `${claim} from ${capacity} to ${database.size}`;
