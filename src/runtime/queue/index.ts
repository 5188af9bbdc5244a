/** The work queue: which keys wait, which are being worked on, which are to be tried again and when. */
export type { Cause, EventCause, ObservedCause, PlainCause } from './cause.ts';
export type { Priority } from './fair-queue.ts';
export {
  type KeyState,
  type QueueObserver,
  type RetryOptions,
  WorkQueue,
  type WorkQueueOptions,
} from './work-queue.ts';
