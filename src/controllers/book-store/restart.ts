import { BookStore } from '../../api/index.ts';
import { type ApiError, isNotFound, isRefusal } from '../../runtime/client/index.ts';
import {
  type Client,
  deleteIfPresent,
  type EventRecorder,
  isControlledBy,
  keyOf,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, Pod, type StatefulSet } from '../../runtime/kinds/index.ts';
import { isReady } from '../pods.ts';
import { serverMessage } from '../refusal.ts';
import { describeGrowth, type FileSystemResize, type ResizeProgress, resizeProgressOf } from './claims.ts';
import type { Settings } from './desired.ts';
import { rolloutOf } from './status.ts';

/** The minimum of `resizeRestartAfter`: a pod needs time to start and to mount its volume. */
const minRestartAfterMs = 1000;

/** What {@link restartPodsForFileSystemResize} needs. */
interface RestartContext extends Pick<ReconcileContext, 'client' | 'log'> {
  readonly pods: Pick<ReadonlyStore<Pod>, 'byOwner'>;
  readonly events: EventRecorder;
  /** What every restart waits for. Undefined if a pod may be restarted now. */
  readonly blockedUntil?: string | undefined;
}

/** The result of {@link restartPodsForFileSystemResize}. */
export interface RestartResult {
  /** The volumes that are mounted anew since they have grown, so that their file systems may still grow. */
  readonly remounted: readonly FileSystemResize[];
  /** The volumes whose file systems have not grown within `resizeRestartAfter` although they were mounted anew. */
  readonly failedAfterRestart: readonly FileSystemResize[];
  /** What the next restart waits for besides `resizeRestartAfter`, for example `pod shop-db-0 is ready`. */
  readonly blockedUntil?: string | undefined;
  /** When to check the file systems again. Undefined if no pod may have to be restarted. */
  readonly requeueAfterMs?: number | undefined;
  /** The refusal of a restart, or of a read before it. */
  readonly error?: ApiError;
}

/**
 * Restarts a pod whose file system has been pending for `resizeRestartAfter`: some drivers grow it only when the volume is
 * mounted. Restarts one pod at a time, and a ready one only if all pods of the StatefulSet are ready and current, so that at most one
 * database is down. Restarts a pod once per resize: if the pod started after the volume had grown, another restart would not help.
 *
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function restartPodsForFileSystemResize(
  { fileSystems }: ResizeProgress,
  statefulSet: StatefulSet,
  bookStore: BookStore,
  settings: Settings,
  context: RestartContext,
): Promise<RestartResult> {
  const found: Resizes = { remounted: [], failedAfterRestart: [] };
  try {
    return { ...found, ...(await restartNextPod(fileSystems, statefulSet, bookStore, settings, context, found)) };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { ...found, blockedUntil: `the API server allows ${error.request}: ${serverMessage(error)}`, error };
  }
}

/** The lists of {@link RestartResult} while they are filled. */
interface Resizes {
  readonly remounted: FileSystemResize[];
  readonly failedAfterRestart: FileSystemResize[];
}

async function restartNextPod(
  fileSystems: ResizeProgress['fileSystems'],
  statefulSet: StatefulSet,
  bookStore: BookStore,
  settings: Settings,
  context: RestartContext,
  { remounted, failedAfterRestart }: Resizes,
): Promise<Pick<RestartResult, 'blockedUntil' | 'requeueAfterMs'>> {
  const { client, log, events } = context;
  const due: { fileSystem: FileSystemResize; pod: ObjectKey; uid: string; isPodReady: boolean }[] = [];
  const delaysMs: number[] = [];
  let { blockedUntil } = context;
  for (const fileSystem of fileSystems) {
    const pod = { ...keyOf(statefulSet), name: `${statefulSet.metadata.name}-${fileSystem.ordinal}` };
    const step = await nextStep(client, settings, statefulSet, fileSystem, pod);
    if (step.type === 'restart') due.push({ fileSystem, pod, ...step });
    if (step.type === 'remounted') remounted.push(fileSystem);
    if (step.type === 'failed') failedAfterRestart.push(fileSystem);
    // The event of the pod's readiness enqueues the key.
    if ((step.type === 'remounted' || step.type === 'failed') && !step.isPodReady)
      blockedUntil ??= `pod ${pod.name} is ready`;
    if (step.type === 'wait' || step.type === 'remounted') delaysMs.push(step.delayMs);
  }
  // The restart of a pod that is not ready takes no database down, so it waits for no other pod. Perhaps its volume is full.
  const next = due.find(({ isPodReady }) => !isPodReady) ?? due[0];
  if (next?.isPodReady === true && !areAllReady(statefulSet, context)) {
    blockedUntil ??= `all pods of StatefulSet ${statefulSet.metadata.name} are ready and have the current template`;
  }
  if (next !== undefined) delaysMs.push(restartAfterMs(settings));
  const isBlocked = next?.isPodReady === false ? context.blockedUntil !== undefined : blockedUntil !== undefined;
  if (next !== undefined && !isBlocked) {
    const { fileSystem, pod, uid } = next;
    if (await deleteIfPresent(client, Pod, pod, { uid })) {
      const change = describeGrowth(fileSystem, settings);
      const note = `restarted pod ${pod.name}: while it ran, the file system of claim ${change} was not grown`;
      log.info({ pod: pod.name }, 'restarted a pod so that its file system grows');
      events.record(BookStore, bookStore, { type: 'Normal', reason: 'PodRestarted', action: 'Restart', note });
    }
    remounted.push(fileSystem);
    blockedUntil = `pod ${pod.name} is ready`;
  }
  const requeueAfterMs = delaysMs.length === 0 ? undefined : Math.min(...delaysMs);
  return { blockedUntil, requeueAfterMs };
}

/** Counts the pods too: the status of the StatefulSet may lag behind a pod that has just ended. */
function areAllReady(statefulSet: StatefulSet, { pods }: RestartContext): boolean {
  const { desired, isComplete } = rolloutOf(statefulSet);
  const ready = [...pods.byOwner(statefulSet.metadata.uid)].filter(
    (pod) => pod.metadata.deletionTimestamp === undefined && isReady(pod),
  );
  return isComplete && ready.length >= desired;
}

export const restartAfterMs = ({ database }: Settings): number =>
  Math.max(database.resizeRestartAfterMs, minRestartAfterMs);

type NextStep =
  | { readonly type: 'nothing' }
  /** `resizeRestartAfter` has not passed. */
  | { readonly type: 'wait'; readonly delayMs: number }
  | { readonly type: 'restart'; readonly uid: string; readonly isPodReady: boolean }
  /** The pod was created after the volume had grown, or it does not run. */
  | { readonly type: 'remounted'; readonly delayMs: number; readonly isPodReady: boolean }
  | { readonly type: 'failed'; readonly isPodReady: boolean };

/** Decides what to do about a volume whose file system has not grown. Reads the claim and the pod from the API server first. */
async function nextStep(
  client: Client,
  settings: Settings,
  statefulSet: StatefulSet,
  { claim, sinceMs }: FileSystemResize,
  podKey: ObjectKey,
): Promise<NextStep> {
  const nowMs = Date.now();
  const waitMs = restartAfterMs(settings);
  const notRunning: NextStep = { type: 'remounted', delayMs: waitMs, isPodReady: false };
  if (nowMs < sinceMs + waitMs) return { type: 'wait', delayMs: sinceMs + waitMs - nowMs };
  try {
    const live = await client.get(PersistentVolumeClaim, { ...podKey, name: claim });
    const [pending] = resizeProgressOf([live], settings.database.size).fileSystems;
    if (pending === undefined || pending.sinceMs === 0) return { type: 'nothing' };
    if (nowMs < pending.sinceMs + waitMs) return { type: 'wait', delayMs: pending.sinceMs + waitMs - nowMs };
    const pod = await client.get(Pod, podKey);
    const isRunning = pod.metadata.deletionTimestamp === undefined && pod.status?.phase === 'Running';
    if (!isRunning || !isControlledBy(pod, statefulSet)) return notRunning;
    // Not startTime, which the node's clock writes: if that clock is behind, the pod would be restarted repeatedly.
    const createdMs = Date.parse(pod.metadata.creationTimestamp);
    const isPodReady = isReady(pod);
    if (createdMs <= pending.sinceMs) return { type: 'restart', uid: pod.metadata.uid, isPodReady };
    const delayMs = createdMs + waitMs - nowMs;
    return delayMs > 0 ? { type: 'remounted', delayMs, isPodReady } : { type: 'failed', isPodReady };
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return notRunning;
  }
}
