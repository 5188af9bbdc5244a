/** The work queue: which keys wait, which are being worked on, which are to be tried again and when. */
export type { Priority } from './fair-queue.ts';
export { type QueueObserver, type RetryOptions, WorkQueue, type WorkQueueOptions } from './work-queue.ts';
