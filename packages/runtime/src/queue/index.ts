/** The work queue: the keys that wait, the keys that workers have, and when each failed key is retried. */
export type { Cause, DeltaCause, PlainCause } from './cause.ts';
export type { Priority, QueueItem } from './fair-queue.ts';
export {
  type KeyState,
  type QueueObserver,
  type RetryOptions,
  WorkQueue,
  type WorkQueueOptions,
} from './work-queue.ts';
