import type { BookStore } from '../../api/index.ts';
import { type Client, isConflict, isControlledBy, isNotFound, keyOf } from '../../runtime/index.ts';
import { PersistentVolumeClaim, Pod, type StatefulSet } from '../built-in-kinds.ts';
import { growthOf, type PendingVolume } from './growth.ts';
import type { Settings } from './settings.ts';

/** Whatever is asked for: a pod has to start, and mount its volume. */
const shortestWaitMs = 1000;

/** What came of a look at the pod of a volume whose file system has not grown. */
export type PodRestart =
  | { readonly type: 'restarted'; readonly pod: string; readonly delayMs: number }
  /** It has grown meanwhile. */
  | { readonly type: 'grown' }
  /** Look again after so long, in milliseconds. */
  | { readonly type: 'later'; readonly delayMs: number };

/**
 * Restarts the one pod whose volume has waited for its file system for too long, as some drivers need it: the kubelet
 * grows the file system when the new pod's volume is mounted. The pod that runs has the whole time too: one that was
 * restarted already is not restarted over and over.
 *
 * @throws whatever the client throws; a pod that is gone or has been followed by another is no error.
 */
export async function restartForVolume(
  client: Client,
  store: BookStore,
  { database }: Settings,
  statefulSet: StatefulSet,
  { claim, ordinal, sinceMs }: PendingVolume,
  nowMs: number,
): Promise<PodRestart> {
  const waitMs = Math.max(database.resizeRestartAfterMs, shortestWaitMs);
  const later = (fromMs: number): PodRestart => ({ type: 'later', delayMs: Math.max(0, fromMs + waitMs - nowMs) });
  if (nowMs < sinceMs + waitMs) return later(sinceMs);
  const key = { ...keyOf(store), name: `${statefulSet.metadata.name}-${ordinal}` };
  try {
    const live = await client.get(PersistentVolumeClaim, { ...keyOf(store), name: claim });
    const [pending] = growthOf([live], database.size).pending;
    if (pending === undefined) return { type: 'grown' };
    if (nowMs < pending.sinceMs + waitMs) return later(pending.sinceMs);
    const pod = await client.get(Pod, key);
    const startedMs = Date.parse(pod.status?.startTime ?? pod.metadata.creationTimestamp);
    // One that does not run yet has its volume mounted when it starts.
    const runs = pod.metadata.deletionTimestamp === undefined && pod.status?.phase === 'Running';
    if (!runs || !isControlledBy(pod, statefulSet)) return later(nowMs);
    if (nowMs < startedMs + waitMs) return later(startedMs);
    await client.delete(Pod, key, { uid: pod.metadata.uid });
    return { type: 'restarted', pod: key.name, delayMs: waitMs };
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
    return later(nowMs);
  }
}
