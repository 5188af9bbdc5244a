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
import { PersistentVolumeClaim, Pod, type StatefulSet } from '../built-in-kinds.ts';
import { isReady } from '../pods.ts';
import { wordsOf } from '../refusal.ts';
import { type Settings, volumeName } from './desired.ts';
import type { VolumeFinding } from './status.ts';

/** As the StatefulSet controller names it: no number begins with a zero. */
const claimName = new RegExp(`^${volumeName}-(.+)-(0|[1-9]\\d{0,8})$`);

/** The StatefulSet whose pod uses a claim, which follows from the claim's name, whoever created it. */
export function statefulSetOfClaim(claim: PersistentVolumeClaim): ObjectKey | undefined {
  const [, name] = claimName.exec(claim.metadata.name) ?? [];
  return name === undefined ? undefined : { ...keyOf(claim), name };
}

/** The ordinal of the pod that uses the claim. */
export const ordinalOf = ({ metadata }: KubeObject): number => Number(claimName.exec(metadata.name)?.[2]);

/** Whether a claim has another controller than the StatefulSet of that name, which may be an earlier one. */
export function isForeign(claim: PersistentVolumeClaim, statefulSetName: string): boolean {
  const controller = controllerOf(claim);
  return controller !== undefined && !(controller.kind === 'StatefulSet' && controller.name === statefulSetName);
}

/** The claims of the pods that the spec asks for. The others belong to pods that were scaled away. */
export const inUse = (
  claims: readonly PersistentVolumeClaim[],
  { database }: Settings,
): readonly PersistentVolumeClaim[] => claims.filter((claim) => ordinalOf(claim) < database.replicas);

const requestOf = ({ spec }: PersistentVolumeClaim): string => spec?.resources?.requests?.storage ?? '0';

/** Whether its pod has so much, whatever the claim asks for. */
const holds = ({ status }: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(status?.capacity?.storage ?? '0', size) >= 0;

const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

export interface GrownClaims {
  /** As they are now. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** The first claim in use that the API server did not let grow, and its words. */
  readonly refusal?: { readonly claim: PersistentVolumeClaim; readonly error: ApiError };
}

/**
 * Sets the request of each claim to `dbSize` if it asks for less; or if it asks for more but holds less, since then the
 * larger size was a mistake that the storage cannot fulfil.
 *
 * A claim is patched, not applied: the StatefulSet controller created it. Each patch names the uid and the
 * resourceVersion. A claim without a volume is left alone, because the API server lets none of them grow.
 *
 * @throws whatever the client throws, except a refusal, which the result holds if the claim is in use.
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
      grown.push(await sized(client, bookStore, claim, database.size));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      grown.push(claim);
      if (ordinalOf(claim) < database.replicas) refusal ??= { claim, error };
    }
  }
  return { claims: grown, ...(refusal && { refusal }) };
}

async function sized(
  client: Client,
  bookStore: BookStore,
  claim: PersistentVolumeClaim,
  size: string,
): Promise<PersistentVolumeClaim> {
  const difference = compareQuantities(requestOf(claim), size);
  if (!isBound(claim) || difference === 0) return claim;
  // A request may shrink as long as it stays above the capacity (KEP-1790). An earlier BookStore of this name, still in the
  // cache, must not undo what its successor asks for.
  if (difference > 0 && (holds(claim, size) || !(await isCurrent(client, BookStore, bookStore)))) return claim;
  const { uid, resourceVersion } = claim.metadata;
  const body = { metadata: { uid, resourceVersion }, spec: { resources: { requests: { storage: size } } } };
  return client.patch(PersistentVolumeClaim, keyOf(claim), { type: 'merge', body });
}

/** A volume whose file system has not grown yet. */
export interface PendingVolume {
  readonly claim: string;
  readonly ordinal: number;
  /** Since when, in milliseconds since 1970; 0 if unknown. */
  readonly sinceMs: number;
}

/** How far the volumes have grown. */
export interface Growth {
  /** The claims that hold less than they should. A claim without a volume is not among them. */
  readonly unfinished: readonly string[];
  readonly pending: readonly PendingVolume[];
  /** Why volumes do not grow, in the words of external-resizer and the kubelet. */
  readonly errors: readonly string[];
}

const errorConditions: readonly string[] = ['ControllerResizeError', 'NodeResizeError'];

/**
 * How far the claims have grown, by what external-resizer and the kubelet write: `status.capacity` is what a pod has;
 * `FileSystemResizePending` is True from when the volume has grown until the kubelet has grown the file system, which it does
 * under the running pod if the driver can, within seconds (k8s.io/kubernetes/pkg/volume/util/resize_util.go).
 */
export function growthOf(claims: readonly PersistentVolumeClaim[], size: string): Growth {
  const unfinished = claims.filter((claim) => isBound(claim) && !holds(claim, size));
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

/** However short `resizeRestartAfter` is: a pod has to start, and mount its volume. */
const shortestWaitMs = 1000;

export interface Restarts {
  /** What to tell of each volume that a restart did not help. */
  readonly stuck: readonly string[];
  /** When to check the pending volumes again. Undefined: none waits. */
  readonly requeueAfterMs: number | undefined;
}

/**
 * Restarts a pod whose volume has waited for its file system for `resizeRestartAfter`: some drivers grow it only when the
 * volume is mounted. One pod at a time: the next waits until this one is ready. Once per resize: if the pod was started after
 * the volume had grown, another restart would not help either.
 *
 * @throws whatever the client throws.
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
    if (step.type === 'tell') {
      stuck.push(
        `${volume.claim}: the file system has not grown although pod ${pod.name} was started after the volume had grown: see the pod's Events`,
      );
    }
    // Its readiness changes the StatefulSet's status, whose event enqueues the key.
    if ((step.type === 'wait' || step.type === 'tell') && step.isStarting) break;
    if (step.type !== 'restart') continue;
    if (await deleteIfPresent(client, Pod, pod, { uid: step.uid })) {
      const note = `pod ${pod.name} restarted: the file system of ${volume.claim} has not grown under it`;
      log.info({ pod: pod.name }, 'a pod is restarted for its volume to grow');
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
  /** `isStarting`: the pod was created after the volume had grown and is not ready. No other pod is restarted meanwhile. */
  | { readonly type: 'wait'; readonly delayMs: number; readonly isStarting: boolean }
  | { readonly type: 'restart'; readonly uid: string }
  | { readonly type: 'tell'; readonly isStarting: boolean };

/** What to do about a volume whose file system has not grown. Reads claim and pod past the cache before a restart. */
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
    // Not startTime: it is of the node's clock. A clock that is behind would have the pod restarted again and again.
    const createdMs = Date.parse(pod.metadata.creationTimestamp);
    if (createdMs <= pending.sinceMs) return { type: 'restart', uid: pod.metadata.uid };
    const isStarting = !isReady(pod);
    return nowMs < createdMs + waitMs ? waitSince(createdMs, isStarting) : { type: 'tell', isStarting };
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return starting;
  }
}

/** No volume is growing. */
export const settled: VolumeFinding = { reason: 'VolumesSettled', message: 'no volume is growing' };

/** @param stuck see {@link Restarts}. */
export function volumeFinding(
  { refusal }: GrownClaims,
  { unfinished, pending, errors }: Growth,
  stuck: readonly string[],
  { database }: Settings,
): VolumeFinding {
  if (refusal !== undefined) return refusedToGrow(refusal);
  if (unfinished.length === 0) return settled;
  const failures = [...errors, ...stuck];
  if (failures.length > 0) return { reason: 'ResizeFailing', message: failures.join('; ') };
  const growing = `${unfinished.join(', ')} to hold ${database.size}`;
  if (pending.length === 0) return { reason: 'ClaimsGrowing', message: growing };
  const message = `${growing}: the file system of ${pending.map(({ claim }) => claim).join(', ')} has not grown yet`;
  return { reason: 'FileSystemResizePending', message };
}

/** In the words of the admission plugin PersistentVolumeClaimResize. */
const classWords = 'must support resize';

function refusedToGrow({ claim, error }: NonNullable<GrownClaims['refusal']>): VolumeFinding {
  const words = wordsOf(error);
  if (!words.includes(classWords)) return { reason: 'ResizeRefused', message: words };
  const { storageClassName = '' } = claim.spec ?? {};
  const named = storageClassName === '' ? 'no StorageClass' : `StorageClass ${storageClassName}`;
  const message = `claim ${claim.metadata.name} is of ${named}, which lets no volume grow (allowVolumeExpansion)`;
  return { reason: 'StorageClassCannotGrow', message };
}
