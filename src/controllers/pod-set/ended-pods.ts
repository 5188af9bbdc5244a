import type { Pod } from '../built-in-kinds.ts';
import type { Memory } from './memory.ts';
import { isUpdated, readyCondition } from './pod-set-pod.ts';

/** How many pods that have ended a PodSet keeps, so that their logs can be read. */
const kept = 5;

/** A pod that was ready for longer after it was made did not end early. The kubelet forgives a container as soon. */
const earlyMs = 600_000;

/** How long no other is made, by how many in a row have ended early; as the kubelet's pauses, up to five minutes. */
const pausesMs = [0, 10_000, 40_000, 160_000, 300_000];

const hasEnded = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && (status?.phase === 'Succeeded' || status?.phase === 'Failed');

const youngestFirst = (pods: readonly Pod[]): readonly Pod[] =>
  pods.filter(hasEnded).sort((one, other) => madeAt(other) - madeAt(one));

const madeAt = ({ metadata }: Pod): number => Date.parse(metadata.creationTimestamp);

/** When it was ready for the last time; of one that never was, when it was made or began to start. */
const lastReadyAt = (pod: Pod): number => Date.parse(readyCondition(pod)?.lastTransitionTime ?? '') || madeAt(pod);

const endedEarly = (pod: Pod): boolean =>
  readyCondition(pod)?.status !== 'True' && lastReadyAt(pod) - madeAt(pod) < earlyMs;

/** Of the pods that have ended those that are not kept. */
export const endedTooMany = (pods: readonly Pod[]): readonly Pod[] => youngestFirst(pods).slice(kept);

/** The last pods of the template that have ended, the youngest first, as far as one after the other ended early. */
function earlyEnds(pods: readonly Pod[], hash: string): readonly Pod[] {
  const ended = youngestFirst(pods);
  const other = ended.findIndex((pod) => !isUpdated(pod, hash) || !endedEarly(pod));
  return other === -1 ? ended : ended.slice(0, other);
}

/** Why no pod is made for now. */
export interface Pause {
  readonly message: string;
  readonly leftMs: number;
}

/** The pause that is due before another pod of the template is made: pods that end at once would follow each other for ever. */
export function pauseAfter(pods: readonly Pod[], hash: string, memory: Memory): Pause | undefined {
  const early = earlyEnds(pods, hash).slice(0, pausesMs.length);
  const [youngest] = early;
  const pauseMs = pausesMs[early.length - 1];
  if (youngest === undefined || pauseMs === undefined) return undefined;
  const { uid } = youngest.metadata;
  // What a clock that is wrong says of it is heard once at the most.
  memory.ended = memory.ended?.uid === uid ? memory.ended : { uid, atMs: performance.now() - ageMs(youngest) };
  const leftMs = memory.ended.atMs + pauseMs - performance.now();
  if (leftMs <= 0) return undefined;
  const message = `${early.length} pods in a row have ended within ten minutes: another is made after ${pauseMs / 1000} s`;
  return { message, leftMs };
}

const ageMs = (pod: Pod): number => Math.max(0, Date.now() - lastReadyAt(pod));
