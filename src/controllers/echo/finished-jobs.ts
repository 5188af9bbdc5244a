import type { Echo } from '../../api/index.ts';
import { type Delta, isControlledBy, keyOf, keyString, type ObjectKey } from '../../runtime/index.ts';
import type { Job } from '../built-in-kinds.ts';
import { isOfCurrentGeneration, jobPhase } from './echo-job.ts';

/**
 * The last state of Jobs that completed and were deleted before their Echo's status could say so. Without it a Job
 * whose time to live is 0 would be made again: its message would be printed twice. After a restart the memory is
 * empty, which is why the promise is "at least once".
 */
export class FinishedJobs {
  readonly #jobs = new Map<string, Job>();

  /** Remembers the Echo's Job if this is its deletion and it had completed. */
  observe(echo: Echo, delta: Delta<Job>): void {
    if (delta.type === 'deleted' && isJobOf(echo, delta.object) && jobPhase(delta.object) === 'Succeeded') {
      this.#jobs.set(keyString(keyOf(delta.object)), delta.object);
    }
  }

  /** The completed Job of this Echo's current generation, if one was deleted. */
  of(echo: Echo, jobKey: ObjectKey): Job | undefined {
    const job = this.#jobs.get(keyString(jobKey));
    return job !== undefined && isJobOf(echo, job) ? job : undefined;
  }

  forget(jobKey: ObjectKey): void {
    this.#jobs.delete(keyString(jobKey));
  }
}

const isJobOf = (echo: Echo, job: Job): boolean => isControlledBy(job, echo) && isOfCurrentGeneration(job, echo);
