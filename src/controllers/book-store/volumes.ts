import { BookStore } from '../../api/index.ts';
import { type ApiError, isNotFound, isRefusal } from '../../runtime/client/index.ts';
import { compareQuantities, isCurrent } from '../../runtime/controller/index.ts';
import {
  type Client,
  controllerOf,
  deleteIfPresent,
  type EventRecorder,
  isControlledBy,
  type KubeObject,
  keyOf,
  type ObjectKey,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, Pod, type StatefulSet } from '../../runtime/kinds/index.ts';
import { isReady } from '../pods.ts';
import { serverMessage } from '../refusal.ts';
import { type Settings, volumeName } from './desired.ts';
import type { VolumeOutcome } from './status.ts';

/** The StatefulSet controller writes ordinals without leading zeros. */
const claimName = new RegExp(`^${volumeName}-(.+)-(0|[1-9]\\d{0,8})$`);

/** The StatefulSet whose pod uses a claim. It follows from the name of the claim, whoever created that. */
export function statefulSetOfClaim(claim: PersistentVolumeClaim): ObjectKey | undefined {
  const [, name] = claimName.exec(claim.metadata.name) ?? [];
  return name === undefined ? undefined : { ...keyOf(claim), name };
}

/** The ordinal of the pod that uses the claim. */
export const ordinalOf = ({ metadata }: KubeObject): number => Number(claimName.exec(metadata.name)?.[2]);

/** True if the claim has a controller that is not this StatefulSet. */
export function isForeign(claim: PersistentVolumeClaim, statefulSetName: string): boolean {
  const controller = controllerOf(claim);
  return controller !== undefined && !(controller.kind === 'StatefulSet' && controller.name === statefulSetName);
}

/** The claims of the pods that the spec asks for. The other claims belong to pods that a scale-down removed. */
export const inUse = (
  claims: readonly PersistentVolumeClaim[],
  { database }: Settings,
): readonly PersistentVolumeClaim[] => claims.filter((claim) => ordinalOf(claim) < database.replicas);

const requestOf = ({ spec }: PersistentVolumeClaim): string => spec?.resources?.requests?.storage ?? '0';

/** Whether the volume has at least this size, whatever the claim requests. */
const hasCapacity = ({ status }: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(status?.capacity?.storage ?? '0', size) >= 0;

const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

export interface GrownClaims {
  /** The claims after the patches. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** The first claim in use that the API server refused to grow, and the refusal. */
  readonly refusal?: { readonly claim: PersistentVolumeClaim; readonly error: ApiError };
}

/**
 * Sets the request of each claim to `dbSize` if the claim requests less. Also lowers a request that is larger than `dbSize` while
 * the volume is smaller (KEP-1790), to undo a size that the storage cannot provide.
 *
 * Patches the claims instead of applying them, because the StatefulSet controller created them. Each patch has the uid and the
 * resourceVersion as preconditions. Skips claims without a volume, because the API server does not let them grow.
 *
 * @throws any error of the client, except a refusal, which the result contains if the claim is in use.
 */
export async function growClaims(
  client: Client,
  bookStore: BookStore,
  { database }: Settings,
  claims: readonly PersistentVolumeClaim[],
): Promise<GrownClaims> {
  const grown: PersistentVolumeClaim[] = [];
  let refusal: GrownClaims['refusal'];
  for (const claim of claims) {
    try {
      grown.push(await resize(client, bookStore, claim, database.size));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      grown.push(claim);
      if (ordinalOf(claim) < database.replicas) refusal ??= { claim, error };
    }
  }
  return { claims: grown, ...(refusal && { refusal }) };
}

async function resize(
  client: Client,
  bookStore: BookStore,
  claim: PersistentVolumeClaim,
  size: string,
): Promise<PersistentVolumeClaim> {
  const difference = compareQuantities(requestOf(claim), size);
  if (!isBound(claim) || difference === 0) return claim;
  // A request may shrink if it stays above the capacity (KEP-1790). The cached BookStore may be an earlier one of this name, which
  // must not undo the size of its successor: read it first.
  if (difference > 0 && (hasCapacity(claim, size) || !(await isCurrent(client, BookStore, bookStore)))) return claim;
  const { uid, resourceVersion } = claim.metadata;
  const body = { metadata: { uid, resourceVersion }, spec: { resources: { requests: { storage: size } } } };
  return client.patch(PersistentVolumeClaim, keyOf(claim), { type: 'merge', body });
}

/** A volume whose file system has not grown yet. */
export interface PendingVolume {
  readonly claim: string;
  readonly ordinal: number;
  /** When the condition became true, in milliseconds since 1970; 0 if unknown. */
  readonly sinceMs: number;
}

/** The progress of the growing volumes. */
export interface Growth {
  /** The claims whose volumes are smaller than `dbSize`. Excludes claims without a volume. */
  readonly unfinished: readonly string[];
  readonly pending: readonly PendingVolume[];
  /** Why volumes do not grow: the messages of external-resizer and the kubelet. */
  readonly errors: readonly string[];
}

const errorConditions: readonly string[] = ['ControllerResizeError', 'NodeResizeError'];

/**
 * The progress of the claims according to external-resizer and the kubelet. `status.capacity` is the size that the pod sees.
 * `FileSystemResizePending` is True from when the volume has grown until the kubelet has grown the file system. If the driver
 * supports it, the kubelet does that within seconds and while the pod runs (k8s.io/kubernetes/pkg/volume/util/resize_util.go).
 */
export function growthOf(claims: readonly PersistentVolumeClaim[], size: string): Growth {
  const unfinished = claims.filter((claim) => isBound(claim) && !hasCapacity(claim, size));
  return {
    unfinished: unfinished.map(({ metadata }) => metadata.name),
    pending: unfinished.flatMap((claim) => {
      const condition = trueCondition(claim, (type) => type === 'FileSystemResizePending');
      if (condition === undefined) return [];
      const sinceMs = Date.parse(condition.lastTransitionTime ?? '') || 0;
      return [{ claim: claim.metadata.name, ordinal: ordinalOf(claim), sinceMs }];
    }),
    errors: unfinished.flatMap((claim) => {
      const condition = trueCondition(claim, (type) => errorConditions.includes(type));
      return condition === undefined ? [] : [`${claim.metadata.name}: ${condition.message || condition.type}`];
    }),
  };
}

const trueCondition = ({ status }: PersistentVolumeClaim, isWanted: (type: string) => boolean) =>
  status?.conditions?.find((condition) => condition.status === 'True' && isWanted(condition.type));

/** The minimum of `resizeRestartAfter`: a pod needs time to start and to mount its volume. */
const shortestWaitMs = 1000;

export interface Restarts {
  /** A message for each volume whose file system has not grown although its pod was restarted. */
  readonly stuck: readonly string[];
  /** When to check the pending volumes again. Undefined if none is waiting. */
  readonly requeueAfterMs: number | undefined;
}

/**
 * Restarts a pod whose file system has been pending for `resizeRestartAfter`: some drivers grow it only when the volume is
 * mounted. Restarts one pod at a time: the next one waits until this one is ready. Restarts a pod once per resize: if the pod
 * started after the volume had grown, another restart would not help.
 *
 * @throws any error of the client.
 */
export async function restartPending(
  { pending }: Growth,
  statefulSet: StatefulSet,
  bookStore: BookStore,
  settings: Settings,
  context: Pick<ReconcileContext, 'client' | 'log'> & { readonly events: EventRecorder },
): Promise<Restarts> {
  const { client, log, events } = context;
  const stuck: string[] = [];
  const delaysMs: number[] = [];
  for (const volume of pending) {
    const pod = { ...keyOf(statefulSet), name: `${statefulSet.metadata.name}-${volume.ordinal}` };
    const step = await nextStep(client, settings, statefulSet, volume, pod);
    if (step.type === 'wait') delaysMs.push(step.delayMs);
    if (step.type === 'report') {
      stuck.push(
        `${volume.claim}: the file system has not grown, although pod ${pod.name} started after the volume had grown: see the pod's Events`,
      );
    }
    // When the pod becomes ready, the status of the StatefulSet changes, and that event enqueues the key.
    if ((step.type === 'wait' || step.type === 'report') && step.isStarting) break;
    if (step.type !== 'restart') continue;
    if (await deleteIfPresent(client, Pod, pod, { uid: step.uid })) {
      const note = `restarted pod ${pod.name}: the file system of ${volume.claim} did not grow while it ran`;
      log.info({ pod: pod.name }, 'restarted a pod so that its file system grows');
      events.record(BookStore, bookStore, { type: 'Normal', reason: 'PodRestarted', action: 'Restart', note });
    }
    delaysMs.push(restartWaitMs(settings));
    break;
  }
  return { stuck, requeueAfterMs: delaysMs.length === 0 ? undefined : Math.min(...delaysMs) };
}

const restartWaitMs = ({ database }: Settings): number => Math.max(database.resizeRestartAfterMs, shortestWaitMs);

type NextStep =
  | { readonly type: 'nothing' }
  /** `isStarting`: the pod was created after the volume had grown and is not ready yet. No other pod is restarted until then. */
  | { readonly type: 'wait'; readonly delayMs: number; readonly isStarting: boolean }
  | { readonly type: 'restart'; readonly uid: string }
  | { readonly type: 'report'; readonly isStarting: boolean };

/** Decides what to do about a volume whose file system has not grown. Reads the claim and the pod from the API server first. */
async function nextStep(
  client: Client,
  settings: Settings,
  statefulSet: StatefulSet,
  { claim, sinceMs }: PendingVolume,
  podKey: ObjectKey,
): Promise<NextStep> {
  const nowMs = Date.now();
  const waitMs = restartWaitMs(settings);
  const waitSince = (fromMs: number, isStarting = false): NextStep => ({
    type: 'wait',
    delayMs: fromMs + waitMs - nowMs,
    isStarting,
  });
  const starting: NextStep = { type: 'wait', delayMs: waitMs, isStarting: true };
  if (nowMs < sinceMs + waitMs) return waitSince(sinceMs);
  try {
    const live = await client.get(PersistentVolumeClaim, { ...podKey, name: claim });
    const [pending] = growthOf([live], settings.database.size).pending;
    if (pending === undefined) return { type: 'nothing' };
    if (nowMs < pending.sinceMs + waitMs) return waitSince(pending.sinceMs);
    const pod = await client.get(Pod, podKey);
    const isRunning = pod.metadata.deletionTimestamp === undefined && pod.status?.phase === 'Running';
    if (!isRunning || !isControlledBy(pod, statefulSet)) return starting;
    // Not startTime, which the node's clock writes: if that clock is behind, the pod would be restarted repeatedly.
    const createdMs = Date.parse(pod.metadata.creationTimestamp);
    if (createdMs <= pending.sinceMs) return { type: 'restart', uid: pod.metadata.uid };
    const isStarting = !isReady(pod);
    return nowMs < createdMs + waitMs ? waitSince(createdMs, isStarting) : { type: 'report', isStarting };
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return starting;
  }
}

export const noVolumeGrowing: VolumeOutcome = { reason: 'VolumesSettled', message: 'no volume is growing' };

/** @param stuck see {@link Restarts}. */
export function volumeOutcome(
  { refusal }: GrownClaims,
  { unfinished, pending, errors }: Growth,
  stuck: readonly string[],
  { database }: Settings,
): VolumeOutcome {
  if (refusal !== undefined) return refusedToGrow(refusal);
  if (unfinished.length === 0) return noVolumeGrowing;
  const failures = [...errors, ...stuck];
  if (failures.length > 0) return { reason: 'ResizeFailing', message: failures.join('; ') };
  const growing = `${unfinished.join(', ')} must grow to ${database.size}`;
  if (pending.length === 0) return { reason: 'ClaimsGrowing', message: growing };
  const message = `${growing}: the file system of ${pending.map(({ claim }) => claim).join(', ')} has not grown yet`;
  return { reason: 'FileSystemResizePending', message };
}

/** Part of the message of the admission plugin PersistentVolumeClaimResize. */
const cannotResizeMessage = 'must support resize';

function refusedToGrow({ claim, error }: NonNullable<GrownClaims['refusal']>): VolumeOutcome {
  const refusal = serverMessage(error);
  if (!refusal.includes(cannotResizeMessage)) return { reason: 'ResizeRefused', message: refusal };
  const { storageClassName = '' } = claim.spec ?? {};
  const named = storageClassName === '' ? 'no StorageClass' : `StorageClass ${storageClassName}`;
  const message = `claim ${claim.metadata.name} has ${named}, which does not allow its volumes to grow (allowVolumeExpansion)`;
  return { reason: 'StorageClassCannotGrow', message };
}
