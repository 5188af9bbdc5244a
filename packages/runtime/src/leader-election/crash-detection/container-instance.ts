import { readFileSync } from 'node:fs';
import type { Pod } from '../../built-in-kinds/built-in-kinds.ts';

/** One instance of a pod's container. A restart creates another instance of the same name. */
export interface ContainerInstance {
  readonly namespace: string;
  readonly podName: string;
  readonly podUid: string;
  readonly containerName: string;
  /** As in the pod's status: `containerd://` and 64 hex digits. */
  readonly containerId: string;
  /** A uuid that only this instance has written into its termination message. */
  readonly terminationToken: string;
}

/**
 * The description of an instance, as a holder publishes it. It contains the holder's identity, because annotations
 * outlive the holder that wrote them.
 */
export const formatDescription = (holderIdentity: string, container: ContainerInstance): string =>
  JSON.stringify({ holderIdentity, ...container });

/** The described instance; undefined if the description names another holder or is incomplete. */
export function parseDescription(description: string, holderIdentity: string): ContainerInstance | undefined {
  const fields = parseObject(description);
  if (fields?.holderIdentity !== holderIdentity) return undefined;
  const { namespace, podName, podUid, containerName, containerId, terminationToken } = fields;
  if (!isNonEmptyString(namespace) || !isNonEmptyString(podName) || !isNonEmptyString(podUid)) return undefined;
  if (!isNonEmptyString(containerName) || !isNonEmptyString(containerId)) return undefined;
  if (!isNonEmptyString(terminationToken)) return undefined;
  return { namespace, podName, podUid, containerName, containerId, terminationToken };
}

const isNonEmptyString = (value: unknown): value is string => typeof value === 'string' && value !== '';

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/** When this container's first process was created, in milliseconds since 1970; otherwise the error. */
export type StartTime =
  | { readonly type: 'known'; readonly ms: number }
  | { readonly type: 'unknown'; readonly error: unknown };

/** This process's own container, as its pod shows it; otherwise why the container's end could not be proven. */
export type OwnContainer =
  | { readonly type: 'running'; readonly containerId: string; readonly terminationMessagePath: string }
  | { readonly type: 'unprovable'; readonly why: string };

/** Reads the start time of this container's first process from /proc. */
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
  // For a static pod the API server shows a mirror pod. Its uid differs from the uid that the kubelet knows.
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
 * The ID of the running instance. Undefined if it started before our first process: the status may still show an
 * earlier instance.
 */
function runningContainerId(pod: Pod, containerName: string, startedAtMs: number): string | undefined {
  const { state, containerID } = findContainerStatus(pod, containerName) ?? {};
  // The API truncates times to whole seconds.
  const isOurs = Date.parse(state?.running?.startedAt ?? '') >= Math.floor(startedAtMs / 1000) * 1000;
  return isOurs && containerID ? containerID : undefined;
}

/** USER_HZ, the unit of times in /proc, in ticks per second: 100 on every platform that Node supports. */
const userHz = 100;

/**
 * Index of `starttime` in /proc/PID/stat, counted after the process name, which may contain spaces (proc(5), field 22).
 */
const startTimeField = 19;

/**
 * When the first process of this PID namespace was created, in milliseconds since 1970 by the current wall clock. In a
 * container with its own PID namespace that is the container's first process.
 *
 * The container runtime creates that process first and records the container's `startedAt` later, so `startedAt` is
 * never earlier than the returned time.
 *
 * @throws Error if /proc is missing or has another format.
 */
export function firstProcessStartedAtMs(): number {
  const stat = readFileSync('/proc/1/stat', 'utf8');
  const ticks = Number(
    stat
      .slice(stat.lastIndexOf(')') + 1)
      .trim()
      .split(' ')[startTimeField],
  );
  const uptime = readFileSync('/proc/uptime', 'utf8');
  const uptimeSeconds = Number(uptime.split(' ')[0]);
  if (!Number.isFinite(ticks) || !Number.isFinite(uptimeSeconds)) {
    throw new Error(`no times in /proc/1/stat and /proc/uptime: ${stat.trim()}; ${uptime.trim()}`);
  }
  return Date.now() - (uptimeSeconds - ticks / userHz) * 1000;
}

export type ContainerSpec = NonNullable<Pod['spec']>['containers'][number];
export type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

/** Finds a container of the pod's spec, also a sidecar, which is an init container (KEP-753). */
export function findContainer({ spec }: Pod, name: string): ContainerSpec | undefined {
  return [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].find((container) => container.name === name);
}

/** Finds the status of a container, also of a sidecar. */
export function findContainerStatus({ status }: Pod, name: string): ContainerStatus | undefined {
  const { containerStatuses = [], initContainerStatuses = [] } = status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find((container) => container.name === name);
}
