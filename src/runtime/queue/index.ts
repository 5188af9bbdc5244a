/** The work queue: which keys wait, which are being worked on, which are to be tried again and when. */
export { type QueueObserver, WorkQueue, type WorkQueueOptions } from './work-queue.ts';
