import { Echo } from '../../api/index.ts';
import type { Delta } from '../../runtime/cache/index.ts';
import {
  controllerReference,
  isControlledBy,
  keyOf,
  keyString,
  type Manifest,
  type ObjectKey,
} from '../../runtime/index.ts';
import type { Job } from '../built-in-kinds.ts';
import { childName } from '../child-name.ts';
import { podLabels, printPod } from '../print-pod.ts';

/** On a Job: the generation of the Echo whose message it prints. */
const generationAnnotation = 'mmontes.io/generation';

/** The job controller copies a Job's name into a label of its pods. */
const maxJobNameLength = 63;

/** The key of the Job of the Echo with this key. */
export const jobKeyOf = (echo: ObjectKey): ObjectKey => ({ ...echo, name: childName(echo.name, maxJobNameLength) });

/** The Job that prints an Echo's message, for its current generation. */
export function echoJob(echo: Echo, image: string): Manifest<Job> {
  const { message, ttlSecondsAfterFinished } = echo.spec;
  return {
    metadata: {
      ...jobKeyOf(keyOf(echo)),
      labels: podLabels,
      annotations: { [generationAnnotation]: String(echo.metadata.generation) },
      ownerReferences: [controllerReference(Echo, echo)],
    },
    spec: {
      ...(ttlSecondsAfterFinished !== undefined && { ttlSecondsAfterFinished }),
      template: printPod(message, image),
    },
  };
}

/** Whether the Job prints the Echo's current message. */
export function isOfCurrentGeneration(job: Job, echo: Echo): boolean {
  return job.metadata.annotations?.[generationAnnotation] === String(echo.metadata.generation);
}

/** How far a Job is. Suspended or waiting for a node it is pending. */
export function jobPhase(job: Job): 'Pending' | 'Running' | 'Succeeded' | 'Failed' {
  if (hasCondition(job, 'Complete')) return 'Succeeded';
  if (hasCondition(job, 'Failed')) return 'Failed';
  return (job.status?.active ?? 0) > 0 ? 'Running' : 'Pending';
}

/** What the job controller says of the failure. */
export function failureMessage(job: Job): string {
  const failure = job.status?.conditions?.find(({ type }) => type === 'Failed');
  return failure?.message ?? failure?.reason ?? 'the job controller gives no reason';
}

function hasCondition(job: Job, type: string): boolean {
  return job.status?.conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
}

/**
 * The last state of each Job that was deleted before the status of its Echo said that it had printed the message; one per
 * Echo.
 *
 * A Job that had completed is not made again: without this memory, a Job with a ttlSecondsAfterFinished of 0 would print
 * twice. A Job that had not completed is made again, but only if the Echo still exists: its deletion also deletes the Job.
 * The memory is empty after a restart, so a message is printed at least once, not exactly once.
 */
export class DeletedJobs {
  readonly #jobs = new Map<string, Job>();

  /** Remembers the Job if it is the Echo's and this is its deletion. */
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
