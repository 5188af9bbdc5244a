import { type ApiError, isNotFound, isRefusal } from '../../runtime/client/index.ts';
import {
  type Client,
  deleteIfPresent,
  isControlledBy,
  keyOf,
  type ObjectKey,
  type ReadonlyStore,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, Pod, type StatefulSet } from '../../runtime/kinds/index.ts';
import { isReady } from '../pods.ts';
import { describeGrowth, type PendingFileSystem, pendingFileSystemOf } from './claims.ts';
import type { DatabaseSpec } from './desired.ts';
import { type RecordEvent, rolloutOf } from './status.ts';

/** The minimum of `resizeRestartAfter`: a pod needs time to start and to mount its volume. */
const minRestartAfterMs = 1000;

/** What {@link restartPodsForFileSystemResize} needs. */
interface RestartContext {
  readonly client: Client;
  readonly pods: Pick<ReadonlyStore<Pod>, 'byOwner'>;
  readonly recordEvent: RecordEvent;
  /** What every restart waits for, as a clause. Undefined if a pod may be restarted now. */
  readonly waitsFor?: string | undefined;
}

/** The result of {@link restartPodsForFileSystemResize}. */
export interface RestartResult {
  /** A step for each file system, in their order. Ends before a file system whose claim or pod the API server refuses to read. */
  readonly steps: readonly RestartStep[];
  /** What the next restart waits for besides `resizeRestartAfter`, for example `pod shop-db-0 is ready`. */
  readonly waitsFor?: string | undefined;
  /** When to check the file systems again. Undefined if no pod may have to be restarted. */
  readonly requeueAfterMs?: number | undefined;
  /** The refusal of a restart, or of a read before it. */
  readonly error?: ApiError;
}

/** What the operator does about a pending file system. */
export interface RestartStep {
  readonly fileSystem: PendingFileSystem;
  readonly pod: ObjectKey;
  readonly decision: Decision;
}

type Decision =
  /** In the API server, the file system of the claim is not pending, or has been pending for an unknown time. */
  | { readonly type: 'noRestart' }
  /** `resizeRestartAfter` has not passed. */
  | { readonly type: 'wait'; readonly delayMs: number }
  | { readonly type: 'restart'; readonly uid: string; readonly isPodReady: boolean }
  /** No pod mounts the volume. */
  | { readonly type: 'notRunning'; readonly isPodReady: false; readonly delayMs: number }
  /** The pod was created after the volume had grown, so its file system may still grow. */
  | { readonly type: 'startedAfterGrowth'; readonly isPodReady: boolean; readonly delayMs: number }
  /** The file system has not grown within `resizeRestartAfter` although the pod was created after the volume had grown. */
  | { readonly type: 'failed'; readonly isPodReady: boolean };

/**
 * Restarts a pod whose file system has been pending for `resizeRestartAfter`: some drivers grow it only when the volume is
 * mounted. Restarts one pod at a time, and a ready pod only if all pods of the StatefulSet are ready and current: at most one database is
 * down. Restarts a pod once per resize: if the pod started after the volume had grown, another restart would not help.
 *
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function restartPodsForFileSystemResize(
  fileSystems: readonly PendingFileSystem[],
  statefulSet: StatefulSet,
  database: DatabaseSpec,
  context: RestartContext,
): Promise<RestartResult> {
  const steps: RestartStep[] = [];
  try {
    for (const fileSystem of fileSystems) {
      const pod = { ...keyOf(statefulSet), name: `${statefulSet.metadata.name}-${fileSystem.ordinal}` };
      const decision = await decide(context.client, database, statefulSet, fileSystem, pod);
      steps.push({ fileSystem, pod, decision });
    }
    const delayMs = restartAfterMs(database);
    const requeueAfterMs = requeueAfterMsOf(steps, delayMs);
    const { next, waitsFor } = chooseRestart(steps, statefulSet, context);
    if (next === undefined) return { steps, waitsFor, requeueAfterMs };
    await restartPod(next, context);
    const restarted: RestartStep = { ...next, decision: { type: 'startedAfterGrowth', isPodReady: false, delayMs } };
    return {
      steps: steps.map((step) => (step === next ? restarted : step)),
      waitsFor: readinessOf(next),
      requeueAfterMs,
    };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { steps, waitsFor: context.waitsFor, error };
  }
}

/** Chooses the pod to restart now. If there is none, `waitsFor` says what the next restart waits for. */
function chooseRestart(
  steps: readonly RestartStep[],
  statefulSet: StatefulSet,
  context: RestartContext,
): { readonly next?: RestartStep | undefined; readonly waitsFor?: string | undefined } {
  if (context.waitsFor !== undefined) return { waitsFor: context.waitsFor };
  const due = steps.filter(({ decision }) => decision.type === 'restart');
  // The restart of a pod that is not ready takes no database down, so it waits for no other pod. Perhaps its volume is full.
  const unready = due.find(isUnready);
  if (unready !== undefined) return { next: unready };
  // The event of the pod's readiness enqueues the key.
  const starting = steps.find(isUnready);
  if (starting !== undefined) return { waitsFor: readinessOf(starting) };
  if (due.length > 0 && !areAllReady(statefulSet, context)) {
    const { name } = statefulSet.metadata;
    return { waitsFor: `all pods of StatefulSet ${name} are ready and have the current template` };
  }
  return { next: due[0] };
}

const isUnready = ({ decision }: RestartStep): boolean => 'isPodReady' in decision && !decision.isPodReady;

const readinessOf = ({ pod }: RestartStep): string => `pod ${pod.name} is ready`;

async function restartPod(
  { fileSystem, pod, decision }: RestartStep,
  { client, recordEvent }: RestartContext,
): Promise<void> {
  if (decision.type !== 'restart' || !(await deleteIfPresent(client, Pod, pod, { uid: decision.uid }))) return;
  const note = `restarted pod ${pod.name}: while it ran, the file system of claim ${describeGrowth(fileSystem)} was not grown`;
  recordEvent({ type: 'Normal', reason: 'PodRestarted', note });
}

/** @param recheckAfterMs the delay after a restart, and while a restart waits, in case the event that it waits for is missed. */
function requeueAfterMsOf(steps: readonly RestartStep[], recheckAfterMs: number): number | undefined {
  const delaysMs = steps.flatMap(({ decision }) => {
    if (decision.type === 'restart') return recheckAfterMs;
    return 'delayMs' in decision ? decision.delayMs : [];
  });
  return delaysMs.length === 0 ? undefined : Math.min(...delaysMs);
}

/** Counts the pods too: the status of the StatefulSet may lag behind a pod that has just ended. */
function areAllReady(statefulSet: StatefulSet, { pods }: RestartContext): boolean {
  const { desired, isComplete } = rolloutOf(statefulSet);
  const ready = [...pods.byOwner(statefulSet.metadata.uid)].filter(
    (pod) => pod.metadata.deletionTimestamp === undefined && isReady(pod),
  );
  return isComplete && ready.length >= desired;
}

/** How long a file system may be pending before its pod is restarted. */
export const restartAfterMs = ({ resizeRestartAfterMs }: DatabaseSpec): number =>
  Math.max(resizeRestartAfterMs, minRestartAfterMs);

/**
 * Decides what to do about a file system that has not grown. Reads nothing until the cached claim is due; then decides by the claim and
 * the pod as the API server has them.
 */
async function decide(
  client: Client,
  database: DatabaseSpec,
  statefulSet: StatefulSet,
  { claim, sinceMs }: PendingFileSystem,
  podKey: ObjectKey,
): Promise<Decision> {
  const nowMs = Date.now();
  const waitMs = restartAfterMs(database);
  const notRunning: Decision = { type: 'notRunning', isPodReady: false, delayMs: waitMs };
  if (nowMs < sinceMs + waitMs) return { type: 'wait', delayMs: sinceMs + waitMs - nowMs };
  try {
    const live = await client.get(PersistentVolumeClaim, { ...podKey, name: claim });
    const pending = pendingFileSystemOf(live, database.size);
    if (pending === undefined || pending.sinceMs === 0) return { type: 'noRestart' };
    if (nowMs < pending.sinceMs + waitMs) return { type: 'wait', delayMs: pending.sinceMs + waitMs - nowMs };
    const pod = await client.get(Pod, podKey);
    const isRunning = pod.metadata.deletionTimestamp === undefined && pod.status?.phase === 'Running';
    if (!isRunning || !isControlledBy(pod, statefulSet)) return notRunning;
    // Not startTime, which the node's clock writes: if that clock is behind, the pod would be restarted repeatedly.
    const createdMs = Date.parse(pod.metadata.creationTimestamp);
    const isPodReady = isReady(pod);
    if (createdMs <= pending.sinceMs) return { type: 'restart', uid: pod.metadata.uid, isPodReady };
    const delayMs = createdMs + waitMs - nowMs;
    return delayMs > 0 ? { type: 'startedAfterGrowth', isPodReady, delayMs } : { type: 'failed', isPodReady };
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return notRunning;
  }
}
