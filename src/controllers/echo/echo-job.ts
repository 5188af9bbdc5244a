import { Echo } from '../../api/index.ts';
import type { Delta } from '../../runtime/cache/index.ts';
import { childName } from '../../runtime/controller/index.ts';
import {
  controllerReference,
  isControlledBy,
  keyOf,
  keyString,
  type Manifest,
  type ObjectKey,
} from '../../runtime/index.ts';
import type { Job } from '../../runtime/kinds/index.ts';
import { type PrintPodSettings, podLabels, printPod } from '../print-pod.ts';

/** The annotation of a Job: the generation of the Echo whose message it prints. */
const generationAnnotation = 'mmontes.io/generation';

/** The job controller copies a Job's name into a label of its pods. */
const maxJobNameLength = 63;

/** The key of an Echo's Job, from the Echo's key. */
export const jobKeyOf = (echo: ObjectKey): ObjectKey => ({ ...echo, name: childName(echo.name, maxJobNameLength) });

/** The Job that prints an Echo's message, for its current generation. */
export function echoJob(echo: Echo, settings: PrintPodSettings): Manifest<Job> {
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
      template: printPod(message, settings),
    },
  };
}

/** Whether the Job prints the Echo's current message. */
export function isOfCurrentGeneration(job: Job, echo: Echo): boolean {
  return job.metadata.annotations?.[generationAnnotation] === String(echo.metadata.generation);
}

/** The phase of a Job. Pending until it has a pod, and while it is suspended without one. */
export function jobPhase(job: Job): 'Pending' | 'Running' | 'Succeeded' | 'Failed' {
  if (hasCondition(job, 'Complete')) return 'Succeeded';
  if (hasCondition(job, 'Failed')) return 'Failed';
  const { active = 0, succeeded = 0, failed = 0, uncountedTerminatedPods } = job.status ?? {};
  if (active > 0) return 'Running';
  if (hasCondition(job, 'Suspended')) return 'Pending';
  // No pod is active between the end of one and the end of the Job, or its replacement.
  const uncounted = [uncountedTerminatedPods?.succeeded, uncountedTerminatedPods?.failed].flatMap((uids) => uids ?? []);
  return succeeded + failed + uncounted.length > 0 ? 'Running' : 'Pending';
}

/** The reason that the job controller gives for the failure. */
export function failureMessage(job: Job): string {
  const failure = job.status?.conditions?.find(({ type }) => type === 'Failed');
  return failure?.message ?? failure?.reason ?? 'the job controller gives no reason';
}

function hasCondition(job: Job, type: string): boolean {
  return job.status?.conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
}

/**
 * Keeps the last state of each Job that was deleted before the status of its Echo recorded the completion. At most one Job per
 * Echo.
 *
 * If the deleted Job had completed, the reconciler does not create it again: otherwise a Job with a ttlSecondsAfterFinished of 0
 * would print twice. If it had not completed, the reconciler creates it again, unless the Echo was deleted, which deletes the Job
 * too. The states are lost with the process, so a message is printed at least once, not exactly once.
 */
export class DeletedJobs {
  readonly #jobs = new Map<string, Job>();

  /** Keeps the Job if this delta deletes it, and it belongs to the Echo and its current generation. */
  observe(echo: Echo, delta: Delta<Job>): void {
    if (delta.type === 'deleted' && isJobOf(echo, delta.object)) {
      this.#jobs.set(keyString(keyOf(delta.object)), delta.object);
    }
  }

  /** The deleted Job of this Echo's current generation. */
  get(echo: Echo, jobKey: ObjectKey): Job | undefined {
    const job = this.#jobs.get(keyString(jobKey));
    return job !== undefined && isJobOf(echo, job) ? job : undefined;
  }

  forget(jobKey: ObjectKey): void {
    this.#jobs.delete(keyString(jobKey));
  }
}

const isJobOf = (echo: Echo, job: Job): boolean => isControlledBy(job, echo) && isOfCurrentGeneration(job, echo);
