import { BookStore } from '../../api/index.ts';
import {
  type Client,
  type EventRecorder,
  isConflict,
  isControlledBy,
  isNotFound,
  keyOf,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, Pod, type StatefulSet } from '../built-in-kinds.ts';
import { type Growth, growthOf, type PendingVolume } from './growth.ts';
import type { Settings } from './settings.ts';

/** Whatever is asked for: a pod has to start, and mount its volume. */
const shortestWaitMs = 1000;

/**
 * Restarts one of the pods whose volumes have waited for their file systems for too long, if there is one.
 *
 * @returns when to look at the first of them again, in milliseconds; undefined where none waits.
 * @throws whatever the client throws.
 */
export async function restartPending(
  { pending }: Growth,
  statefulSet: StatefulSet,
  store: BookStore,
  settings: Settings,
  { client, log, events }: Pick<ReconcileContext, 'client' | 'log'> & { readonly events: EventRecorder },
): Promise<number | undefined> {
  const delaysMs: number[] = [];
  for (const volume of pending) {
    const look = await restartForVolume(client, store, settings, statefulSet, volume, Date.now());
    if (look.type !== 'grown') delaysMs.push(look.delayMs);
    // One at a time: the next when it runs.
    if (look.type === 'starting') break;
    if (look.type !== 'restarted') continue;
    const note = `pod ${look.pod} restarted: the file system of ${volume.claim} has not grown under it`;
    log.info({ pod: look.pod }, 'a pod is restarted for its volume to grow');
    events.record(BookStore, store, { type: 'Normal', reason: 'PodRestarted', action: 'Restart', note });
    break;
  }
  return delaysMs.length === 0 ? undefined : Math.min(...delaysMs);
}

/** What came of a look at the pod of a volume whose file system has not grown. */
type PodRestart =
  | { readonly type: 'restarted'; readonly pod: string; readonly delayMs: number }
  /** It has grown meanwhile. */
  | { readonly type: 'grown' }
  /** It is not up: its volume is mounted when it starts. Look again after so long, in milliseconds. */
  | { readonly type: 'starting'; readonly delayMs: number }
  /** Look again after so long, in milliseconds. */
  | { readonly type: 'later'; readonly delayMs: number };

/**
 * Restarts the one pod whose volume has waited for its file system for too long, as some drivers need it: the kubelet
 * grows the file system when the new pod's volume is mounted. The pod that runs has the whole time too: one that was
 * restarted already is not restarted over and over.
 *
 * @throws whatever the client throws; a pod that is gone or has been followed by another is no error.
 */
async function restartForVolume(
  client: Client,
  store: BookStore,
  { database }: Settings,
  statefulSet: StatefulSet,
  { claim, ordinal, sinceMs }: PendingVolume,
  nowMs: number,
): Promise<PodRestart> {
  const waitMs = Math.max(database.resizeRestartAfterMs, shortestWaitMs);
  const later = (fromMs: number): PodRestart => ({ type: 'later', delayMs: Math.max(0, fromMs + waitMs - nowMs) });
  const starting = { type: 'starting', delayMs: waitMs } as const;
  if (nowMs < sinceMs + waitMs) return later(sinceMs);
  const key = { ...keyOf(store), name: `${statefulSet.metadata.name}-${ordinal}` };
  try {
    const live = await client.get(PersistentVolumeClaim, { ...keyOf(store), name: claim });
    const [pending] = growthOf([live], database.size).pending;
    if (pending === undefined) return { type: 'grown' };
    if (nowMs < pending.sinceMs + waitMs) return later(pending.sinceMs);
    const pod = await client.get(Pod, key);
    const startedMs = Date.parse(pod.status?.startTime ?? pod.metadata.creationTimestamp);
    const runs = pod.metadata.deletionTimestamp === undefined && pod.status?.phase === 'Running';
    if (!runs || !isControlledBy(pod, statefulSet)) return starting;
    if (nowMs < startedMs + waitMs) return later(startedMs);
    await client.delete(Pod, key, { uid: pod.metadata.uid });
    return { type: 'restarted', pod: key.name, delayMs: waitMs };
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
    return starting;
  }
}
