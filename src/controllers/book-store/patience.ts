import type { BookStore } from '../../api/index.ts';
import { findCondition } from '../../runtime/index.ts';
import type { StatefulSet } from '../built-in-kinds.ts';
import type { Growth } from './growth.ts';
import { rolloutOf } from './rollout.ts';

/** A change of the pods waits for a growth no longer than this. */
const longestWaitMs = 15 * 60_000;

/**
 * How long a change of the pods is to wait yet for their volumes to grow and their StatefulSet to be made anew, in
 * milliseconds. Not for long, counted from when the status first told of it, whoever was there since; and not where it may
 * be what helps: where a database is not ready, or a volume does not grow.
 */
export function waitLeftMs(store: BookStore, present: StatefulSet, { errors }: Growth, nowMs: number): number {
  if (errors.length > 0 || !rolloutOf(present).isComplete) return 0;
  const growing = findCondition(store.status?.conditions, 'VolumeResizing');
  const sinceMs = growing?.status === 'True' ? Date.parse(growing.lastTransitionTime) : nowMs;
  return Math.max(0, sinceMs + longestWaitMs - nowMs);
}
