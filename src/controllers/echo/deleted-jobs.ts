import type { Echo } from '../../api/index.ts';
import { type Delta, isControlledBy, keyOf, keyString, type ObjectKey } from '../../runtime/index.ts';
import type { Job } from '../built-in-kinds.ts';
import { isOfCurrentGeneration } from './echo-job.ts';

/**
 * The last state of the Jobs that were deleted before their Echo's status said that they had printed, one an Echo.
 *
 * One that had completed is not made again: without this memory a Job whose time to live is 0 would print twice. One
 * that had not is made again, but then the store's Echo may be no more: its deletion is what deleted the Job. After a
 * restart the memory is empty, which is why the promise is "at least once".
 */
export class DeletedJobs {
  readonly #jobs = new Map<string, Job>();

  /** Remembers the Echo's Job if this is its deletion. */
  observe(echo: Echo, delta: Delta<Job>): void {
    if (delta.type === 'deleted' && isJobOf(echo, delta.object)) {
      this.#jobs.set(keyString(keyOf(delta.object)), delta.object);
    }
  }

  /** The Job of this Echo's current generation, if one was deleted. */
  of(echo: Echo, jobKey: ObjectKey): Job | undefined {
    const job = this.#jobs.get(keyString(jobKey));
    return job !== undefined && isJobOf(echo, job) ? job : undefined;
  }

  forget(jobKey: ObjectKey): void {
    this.#jobs.delete(keyString(jobKey));
  }
}

const isJobOf = (echo: Echo, job: Job): boolean => isControlledBy(job, echo) && isOfCurrentGeneration(job, echo);
