import { deleteIfPresent, isControlledBy, keyOf, type Predicate } from '@echoperator/runtime';
import { type ApiError, getIfPresent, isRefusal } from '@echoperator/runtime/client';
import { PersistentVolumeClaim, Pod, type StatefulSet } from '@echoperator/runtime/kinds';
import { isReady } from '../shared/pods.ts';
import { describeGrowth, type GrowingClaim, growthOf, type PendingFileSystem } from './claims.ts';
import type { BookStoreContext } from './context.ts';
import type { DatabaseSpec } from './desired.ts';
import { rolloutOf } from './status.ts';

/**
 * How long a file system may be pending before its pod is restarted. A pod needs time to start and to mount its volume.
 */
const restartAfterMs = ({ resizeRestartAfterMs }: DatabaseSpec): number => Math.max(resizeRestartAfterMs, 1000);

type RestartContext = Pick<BookStoreContext, 'client' | 'owned' | 'event'>;

/** The result of {@link restartPodsForFileSystemResize}. */
export interface RestartResult {
  readonly growing: readonly ClaimProgress[];
  /** What the next restart waits for besides `resizeRestartAfter`, for example `pod shop-db-0 is ready`. */
  readonly waitsFor?: string | undefined;
  /** When to check the file systems again. Undefined if no pod may have to be restarted. */
  readonly requeueAfterMs?: number | undefined;
  /** The refusal of a restart, or of a read before it. */
  readonly error?: ApiError;
}

/** A growing claim, and what the operator does about its pod. */
export type ClaimProgress = GrowingClaim & {
  /** Undefined if the file system is not pending or nobody knows since when, and after a refused read. */
  readonly step?: RestartStep | undefined;
};

/** What the operator does about the pod of a pending file system. */
type RestartStep =
  /** The StatefulSet has no such pod. */
  | { readonly type: 'absent'; readonly isPodReady: false }
  /** The pod does not mount the volume. */
  | { readonly type: 'notRunning'; readonly isPodReady: false }
  /** The pod is being deleted, by the operator or by somebody else. */
  | { readonly type: 'ending'; readonly isPodReady: false }
  | { readonly type: 'restart'; readonly dueMs: number; readonly uid: string; readonly isPodReady: boolean }
  /** The pod was created after the volume had grown, so its file system may still grow until `dueMs`. */
  | { readonly type: 'createdAfterGrowth'; readonly dueMs: number; readonly isPodReady: boolean }
  /**
   * The file system has not grown within `resizeRestartAfter` although the pod was created after the volume had grown.
   */
  | { readonly type: 'failed'; readonly isPodReady: boolean };

/**
 * Restarts a pod whose file system has been pending for `resizeRestartAfter`: some drivers grow it only when the volume
 * is mounted. Deletes at most one pod per reconcile, and a ready pod only if all pods of the StatefulSet are ready and
 * current: that takes at most one database down. Restarts a pod once per resize: if the pod was created after the
 * volume had grown, another restart would not help.
 *
 * @param waitsFor what every restart waits for, as a clause. Undefined: a pod may be restarted now.
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function restartPodsForFileSystemResize(
  growing: readonly GrowingClaim[],
  statefulSet: StatefulSet,
  database: DatabaseSpec,
  context: RestartContext,
  waitsFor?: string,
): Promise<RestartResult> {
  const nowMs = Date.now();
  const progress: ClaimProgress[] = [...growing];
  try {
    for (const [index, claim] of growing.entries()) {
      if (claim.state !== 'fileSystem') continue;
      progress[index] = { ...claim, step: await stepOf(claim, statefulSet, database, context, nowMs) };
    }
    const requeueAfterMs = requeueAfterMsOf(progress, nowMs, restartAfterMs(database));
    const choice = waitsFor === undefined ? chooseRestart(progress, statefulSet, context, nowMs) : { waitsFor };
    const { next } = choice;
    if (next === undefined) return { growing: progress, waitsFor: choice.waitsFor, requeueAfterMs };
    await deletePod(next, statefulSet, context);
    progress[progress.indexOf(next)] = { ...next, step: { type: 'ending', isPodReady: false } };
    return { growing: progress, waitsFor: readinessOf(next), requeueAfterMs };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { growing: progress, waitsFor, error };
  }
}

type PendingRestart = ClaimProgress & { readonly step: Extract<RestartStep, { readonly type: 'restart' }> };

/** The restarts that wait until they are due, the earliest first. */
export function pendingRestarts(growing: readonly ClaimProgress[]): readonly PendingRestart[] {
  const isPending = (claim: ClaimProgress): claim is PendingRestart => claim.step?.type === 'restart';
  return growing.filter(isPending).toSorted((one, other) => one.step.dueMs - other.step.dueMs);
}

/** Chooses the pod to restart now. If there is none, `waitsFor` says what the next restart waits for. */
function chooseRestart(
  progress: readonly ClaimProgress[],
  statefulSet: StatefulSet,
  context: RestartContext,
  nowMs: number,
): { readonly next?: ClaimProgress | undefined; readonly waitsFor?: string | undefined } {
  const due = pendingRestarts(progress).filter(({ step }) => step.dueMs <= nowMs);
  // The restart of a pod that is not ready takes no database down, so it waits for no other pod. Perhaps its volume is
  // full.
  const unready = due.find(isUnready);
  if (unready !== undefined) return { next: unready };
  // The event of the pod's readiness enqueues the key.
  const starting = progress.find((claim) => claim.step?.type !== 'restart' && isUnready(claim));
  if (starting !== undefined) return { waitsFor: readinessOf(starting) };
  if (due.length > 0 && !areAllReady(statefulSet, context)) {
    const { name } = statefulSet.metadata;
    return { waitsFor: `all pods of StatefulSet ${name} are ready and have the current template` };
  }
  return { next: due[0] };
}

const isUnready = ({ step }: ClaimProgress): boolean => step?.isPodReady === false;

const readinessOf = ({ podName }: ClaimProgress): string => `pod ${podName} is ready`;

async function deletePod(
  claim: ClaimProgress,
  statefulSet: StatefulSet,
  { client, event }: RestartContext,
): Promise<void> {
  const { podName, step } = claim;
  const key = { ...keyOf(statefulSet), name: podName };
  if (step?.type !== 'restart' || !(await deleteIfPresent(client, Pod, key, { uid: step.uid }))) return;
  // Does not say that the pod was restarted: on a lost node it does not end.
  const note = `deleted pod ${podName}, so that its volume is mounted again: while it ran, the file system of claim ${describeGrowth(claim)} was not grown`;
  event({ type: 'Normal', reason: 'PodRestarted', note });
}

/** @param recheckAfterMs the delay while a restart waits for an event, in case that is missed. */
function requeueAfterMsOf(
  progress: readonly ClaimProgress[],
  nowMs: number,
  recheckAfterMs: number,
): number | undefined {
  const delaysMs = progress.flatMap(({ step }) => {
    if (step === undefined || step.type === 'failed') return [];
    return 'dueMs' in step && step.dueMs > nowMs ? step.dueMs - nowMs : recheckAfterMs;
  });
  return delaysMs.length === 0 ? undefined : delaysMs.reduce((one, other) => Math.min(one, other));
}

/** Counts the pods too: the status of the StatefulSet may lag behind a pod that has just ended. */
function areAllReady(statefulSet: StatefulSet, { owned }: RestartContext): boolean {
  const { desired, isComplete } = rolloutOf(statefulSet);
  const ready = owned(Pod, statefulSet).filter((pod) => pod.metadata.deletionTimestamp === undefined && isReady(pod));
  return isComplete && ready.length >= desired;
}

/**
 * Decides by the cached claim and pod; once the claim is due, by those in the API server. Undefined if the file system
 * is not pending there, or has been pending for an unknown time.
 */
async function stepOf(
  claim: PendingFileSystem,
  statefulSet: StatefulSet,
  database: DatabaseSpec,
  { client, owned }: RestartContext,
  nowMs: number,
): Promise<RestartStep | undefined> {
  const waitMs = restartAfterMs(database);
  if (nowMs < claim.sinceMs + waitMs) {
    const cached = owned(Pod, statefulSet).find(({ metadata }) => metadata.name === claim.podName);
    return stepFor(claim.sinceMs, cached, waitMs, nowMs);
  }
  const liveClaim = await getIfPresent(client, PersistentVolumeClaim, { ...keyOf(statefulSet), name: claim.claimName });
  const growth = liveClaim && growthOf(liveClaim, database.size);
  if (growth?.state !== 'fileSystem' || growth.sinceMs === 0) return undefined;
  const pod = await getIfPresent(client, Pod, { ...keyOf(statefulSet), name: claim.podName });
  return stepFor(growth.sinceMs, pod && isControlledBy(pod, statefulSet) ? pod : undefined, waitMs, nowMs);
}

function stepFor(sinceMs: number, pod: Pod | undefined, waitMs: number, nowMs: number): RestartStep {
  if (pod === undefined) return { type: 'absent', isPodReady: false };
  const state = runStateOf(pod);
  if (state !== 'running') return { type: state, isPodReady: false };
  const { uid, creationTimestamp } = pod.metadata;
  const isPodReady = isReady(pod);
  // Not startTime, which the node's clock writes: if that clock is behind, the pod would be restarted repeatedly.
  const createdMs = Date.parse(creationTimestamp);
  if (createdMs <= sinceMs) return { type: 'restart', dueMs: sinceMs + waitMs, uid, isPodReady };
  const dueMs = createdMs + waitMs;
  return nowMs < dueMs ? { type: 'createdAfterGrowth', dueMs, isPodReady } : { type: 'failed', isPodReady };
}

function runStateOf({ metadata, status }: Pod): 'running' | 'notRunning' | 'ending' {
  if (metadata.deletionTimestamp !== undefined) return 'ending';
  return status?.phase === 'Running' ? 'running' : 'notRunning';
}

/** True if the pod was added or deleted, or started or began to end: a {@link RestartStep} depends on that. */
export const affectsRestart: Predicate<Pod> = (delta) =>
  delta.type !== 'modified' || runStateOf(delta.object) !== runStateOf(delta.previous);
