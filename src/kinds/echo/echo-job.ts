import { type Child, childName } from '@echoperator/runtime/controller';
import type { Job } from '@echoperator/runtime/kinds';
import { type PrintPodSettings, podLabels, printPod } from '../shared/print-pod.ts';
import type { Echo } from './kind.ts';

/** The annotation of a Job: the generation of the Echo whose message it prints. */
const generationAnnotation = 'mmontes.io/generation';

/** The job controller copies a Job's name into a label of its pods. */
const maxJobNameLength = 63;

/** The name of an Echo's Job. */
export const jobNameOf = ({ metadata }: Echo): string => childName(metadata.name, maxJobNameLength);

/** The Job that prints an Echo's message, for its current generation. */
export function echoJob(echo: Echo, settings: PrintPodSettings): Child<Job> {
  const { ttlSecondsAfterFinished } = echo.spec;
  return {
    metadata: {
      name: jobNameOf(echo),
      labels: podLabels,
      annotations: { [generationAnnotation]: String(echo.metadata.generation) },
    },
    spec: {
      ...(ttlSecondsAfterFinished !== undefined && { ttlSecondsAfterFinished }),
      template: printPod(echo.spec, settings),
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

/**
 * Since when the Job should have a pod although its status counts none, in milliseconds since 1970. Undefined if it
 * need not: the job controller sets the time at its first attempt to create one, so a Job that it has not seen yet has
 * none.
 */
export function withoutPodSinceMs(job: Job): number | undefined {
  const { startTime } = job.status ?? {};
  if (startTime === undefined || jobPhase(job) !== 'Pending' || hasCondition(job, 'Suspended')) return undefined;
  return Date.parse(startTime);
}

/** The reason that the job controller gives for the failure. */
export function failureMessage(job: Job): string {
  const failure = job.status?.conditions?.find(({ type }) => type === 'Failed');
  return failure?.message ?? failure?.reason ?? 'the job controller gives no reason';
}

function hasCondition(job: Job, type: string): boolean {
  return job.status?.conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
}
