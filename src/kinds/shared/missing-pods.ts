import type { Client, Kind, KubeObject } from '@echoperator/runtime';
import { cutText, GateClosedError } from '@echoperator/runtime/client';
import { Event } from '@echoperator/runtime/kinds';

/** A child whose controller has made no pod, or fewer than the child asks for. */
export interface ChildWithoutPod {
  readonly kind: Kind;
  readonly metadata: Pick<KubeObject['metadata'], 'name' | 'namespace' | 'uid'>;
  /**
   * Since when, at the earliest, in milliseconds since 1970: after a restart of the operator, the first look need not
   * wait.
   */
  readonly sinceMs: number;
}

/** What the reconciles of an object remember of {@link whyNoPod}. */
export interface MissingPodsMemory {
  /** The last result. Times are on the clock of `performance.now`. To be deleted when nothing lacks a pod. */
  missingPods?:
    | {
        readonly uid: string;
        readonly firstSeenMs: number;
        readonly problem: string | undefined;
        readonly untilMs: number;
      }
    | undefined;
}

/** Why there is no pod, as far as it is known, and when to look again: no event says that. */
export interface WhyNoPod {
  readonly problem: string | undefined;
  readonly requeueAfterMs: number;
}

/**
 * A controller makes the pods within this time, in milliseconds. Then their cost is one list: there is none for a
 * healthy child.
 */
const firstLookMs = 10_000;

/**
 * The longest pause between two looks, in milliseconds. Pods that are made after all change the child, which enqueues
 * its owner.
 */
const maxPauseMs = 600_000;

/**
 * If no Event has said why for this long, in milliseconds, something is wrong all the same: Events expire after an
 * hour.
 */
const silentMs = 60_000;

/**
 * The most Events that are read, and their size: whoever may write Events decides about both. Their controller merges
 * repeated ones.
 */
const maxEvents = 100;
const maxBytes = 1024 * 1024;

/** This only informs: it must not keep the owner from being reconciled. In milliseconds. */
const timeoutMs = 5000;

/**
 * Why a controller makes no pod for a child: `FailedCreate: pod is forbidden: failed quota: compute: must specify
 * limits.cpu for: app`. A quota, a policy or a webhook may refuse the pods of a Job or a StatefulSet, and only an Event
 * says so. (A Deployment has the condition `ReplicaFailure`.)
 *
 * Lists the Events of the child after ten seconds, then each time after twice as long, at most every ten minutes. Call
 * it in each reconcile of the owner while the pod is missing, and only then; between two lists it repeats the last
 * result. If Events cannot be listed, the problem says where to look.
 *
 * @throws GateClosedError.
 */
export async function whyNoPod(
  child: ChildWithoutPod,
  { client, memory }: { readonly client: Pick<Client, 'list'>; readonly memory: MissingPodsMemory },
): Promise<WhyNoPod> {
  const { uid } = child.metadata;
  const nowMs = performance.now();
  const last = memory.missingPods?.uid === uid ? memory.missingPods : undefined;
  const leftMs = (last?.untilMs ?? 0) - nowMs;
  if (leftMs > 0) return { problem: last?.problem, requeueAfterMs: leftMs };
  const firstSeenMs = last?.firstSeenMs ?? nowMs;
  const ageMs = Math.max(0, Date.now() - child.sinceMs);
  const isLooking = last !== undefined || ageMs >= firstLookMs;
  // The child may be much older than the lack of a pod, and the clocks may differ: only what this process has seen
  // counts.
  const seenForMs = nowMs - firstSeenMs;
  const problem = isLooking ? await readProblem(child, client, seenForMs) : undefined;
  const requeueAfterMs = isLooking ? Math.min(Math.max(seenForMs, firstLookMs), maxPauseMs) : firstLookMs - ageMs;
  memory.missingPods = { uid, firstSeenMs, problem, untilMs: performance.now() + requeueAfterMs };
  return { problem, requeueAfterMs };
}

async function readProblem(
  { kind, metadata: { name, namespace = '', uid } }: ChildWithoutPod,
  client: Pick<Client, 'list'>,
  seenForMs: number,
): Promise<string | undefined> {
  const whereToLook = `(kubectl --namespace ${namespace} describe ${kind.kind.toLowerCase()} ${name})`;
  try {
    const fieldSelector = `regarding.uid=${uid},type=Warning`;
    const signal = AbortSignal.timeout(timeoutMs);
    const { items } = await client.list(Event, { namespace, fieldSelector, limit: maxEvents, maxBytes, signal });
    const latest = items.reduce<Event | undefined>(
      (one, other) => (one !== undefined && timeOf(one) > timeOf(other) ? one : other),
      undefined,
    );
    if (latest !== undefined) return describeEvent(latest);
    return seenForMs < silentMs ? undefined : `no Event says why ${whereToLook}`;
  } catch (error) {
    if (error instanceof GateClosedError) throw error;
    return `the operator cannot list Events ${whereToLook}`;
  }
}

/** The time at which it last happened. The recorder of kube-controller-manager still writes the deprecated field. */
const timeOf = ({ series, deprecatedLastTimestamp, eventTime, metadata }: Event): number =>
  Date.parse(series?.lastObservedTime ?? deprecatedLastTimestamp ?? eventTime ?? metadata.creationTimestamp);

/**
 * Drops the name of the pod: the next attempt of the job controller has another one, and each new message costs a
 * status write.
 */
function describeEvent({ reason = '', note = '' }: Event): string {
  const message = cutText(note)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/\bpods "[^"]*"/g, 'pod')
    .replace(/^Error creating: /, '')
    .trim();
  return cutText(`${reason}: ${message}`);
}
