import type { Pod } from '../../kinds/built-in-kinds.ts';
import { firstProcessStartedAtMs } from './first-process-start-time.ts';
import { findContainer, findContainerStatus } from './pod.ts';

/** When this container's first process was created, in milliseconds since 1970; or why that is unknown. */
export type StartTime =
  | { readonly type: 'known'; readonly ms: number }
  | { readonly type: 'unknown'; readonly error: unknown };

/** This process's own container, as its pod shows it; or why its end could not be proven. */
export type OwnContainer =
  | { readonly type: 'running'; readonly containerId: string; readonly terminationMessagePath: string }
  | { readonly type: 'unprovable'; readonly why: string };

/** The start time of this container's first process, by /proc. */
export function readStartTime(): StartTime {
  try {
    return { type: 'known', ms: firstProcessStartedAtMs() };
  } catch (error) {
    return { type: 'unknown', error };
  }
}

/** Finds this process's own container in its pod; undefined while the pod's status does not show it running yet. */
export function findOwnContainer(
  pod: Pod,
  { podUid, containerName }: { readonly podUid: string; readonly containerName: string },
  startTime: StartTime,
): OwnContainer | undefined {
  const { metadata, spec } = pod;
  // The API server shows a static pod as a mirror pod, with a uid other than the one that the kubelet gave the pod.
  const isMirror = metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined;
  if (isMirror) return { type: 'unprovable', why: 'this is a static pod, whose uid the API server does not have' };
  if (metadata.uid !== podUid) return undefined;
  if (spec?.shareProcessNamespace || spec?.hostPID) {
    const why = `the pod's containers share a PID namespace (${spec.hostPID ? 'hostPID' : 'shareProcessNamespace'})`;
    return { type: 'unprovable', why };
  }
  const { terminationMessagePath } = findContainer(pod, containerName) ?? {};
  if (!terminationMessagePath) return { type: 'unprovable', why: `the pod has no container ${containerName}` };
  if (startTime.type === 'unknown') return { type: 'unprovable', why: String(startTime.error) };
  const containerId = runningContainerId(pod, containerName, startTime.ms);
  return containerId === undefined ? undefined : { type: 'running', containerId, terminationMessagePath };
}

/**
 * The ID of the running instance, unless it started before our first process: the status may still show an earlier
 * instance.
 */
function runningContainerId(pod: Pod, containerName: string, startedAtMs: number): string | undefined {
  const { state, containerID } = findContainerStatus(pod, containerName) ?? {};
  // The API truncates times to whole seconds.
  const isOurs = Date.parse(state?.running?.startedAt ?? '') >= Math.floor(startedAtMs / 1000) * 1000;
  return isOurs && containerID ? containerID : undefined;
}
