/** Echo: a Job per generation prints the message. */

import { controllerOf, defineController, keyOf, type Outcome } from '@echoperator/runtime';
import { allow } from '@echoperator/runtime/controller';
import { CronJob, Event, Job, Pod } from '@echoperator/runtime/kinds';
import { type MissingPodsMemory, whyNoPod } from '../shared/missing-pods.ts';
import { affectsPodProblem, problemAmong, untilOverdueMs } from '../shared/pods.ts';
import type { PrintPodSettings } from '../shared/print-pod.ts';
import { echoJob, failureMessage, isOfCurrentGeneration, jobNameOf, jobPhase, withoutPodSinceMs } from './echo-job.ts';
import { Echo } from './kind.ts';

/** The reasons of `Ready` of an Echo, beside the standard ones. */
export const echoReasons = {
  Printed: { ready: 'True', event: 'Normal', meaning: 'The Job has printed the message.' },
  Printing: { ready: 'False', event: 'Normal', meaning: 'The Job exists and has not finished.' },
  JobFailed: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The Job has failed. The message quotes the job controller.',
  },
} as const;

type EchoOutcome = Outcome<keyof typeof echoReasons, Echo>;

/**
 * Runs one Job per generation of an Echo. Deletes a Job of an older generation, and creates the new one when it is
 * gone. Creates a Job again if it was deleted before it completed, but not after.
 *
 * @param pod settings of the pods that print.
 */
export const echoController = (pod: PrintPodSettings) =>
  defineController(Echo, {
    reasons: echoReasons,
    // A Job with a ttlSecondsAfterFinished of 0 is deleted when it has completed: then the status may not say so yet.
    memory: (): { deletedJob?: Job } & MissingPodsMemory => ({}),
    owns: [
      {
        kind: Job,
        write: 'create',
        deletes: true,
        onChange: (delta, _, memory) => {
          if (delta.type === 'deleted') memory.deletedJob = delta.object;
        },
      },
    ],
    refersTo: [{ kind: CronJob, keys: ({ metadata }) => [metadata.name] }],
    watches: [
      {
        kind: Pod,
        predicate: affectsPodProblem,
        keys: (pod, { ownersAskingFor }) => {
          const controller = controllerOf(pod);
          return controller?.kind === Job.kind ? ownersAskingFor(Job, { ...keyOf(pod), name: controller.name }) : [];
        },
      },
    ],
    // The Events of a Job without a pod.
    permissions: [allow(['list'], Event)],
    observe: (echo, { owned }) => ({
      status: isPrinted(echo)
        ? {}
        : statusOf(
            echo,
            owned(Job).find((job) => isOfCurrentGeneration(job, echo)),
          ),
    }),
    reconcile: async (echo, { get, owned, createOnce, delete: deleteChild, isCurrent, client, memory }) => {
      if (isPrinted(echo)) delete memory.deletedJob;
      const current = owned(Job).find((job) => isOfCurrentGeneration(job, echo));
      const completed = [current, memory.deletedJob].find(
        (job) => job !== undefined && isOfCurrentGeneration(job, echo) && jobPhase(job) === 'Succeeded',
      );
      if (completed !== undefined) return outcomeOf(echo, completed);
      if (isPrinted(echo)) return printedOutcome(jobNameOf(echo));
      if (current === undefined && get(CronJob, echo.metadata.name) !== undefined) return cronJobTakesJob(echo);
      const job = await createOnce(Job, echoJob(echo, pod));
      if (isOfCurrentGeneration(job, echo)) {
        const pods = owned(Pod, job);
        const sinceMs = pods.length === 0 ? withoutPodSinceMs(job) : undefined;
        if (sinceMs === undefined) {
          delete memory.missingPods;
          return { ...outcomeOf(echo, job, problemAmong(pods)), requeueAfterMs: untilOverdueMs(pods) };
        }
        const { problem, requeueAfterMs } = await whyNoPod(
          { kind: Job, metadata: job.metadata, sinceMs },
          { client, memory },
        );
        return { ...outcomeOf(echo, job, problem && `it has no pod: ${problem}`), requeueAfterMs };
      }
      if (!(await isCurrent())) return undefined;
      // The reconcile after its deletion creates the new Job: the two never run at the same time.
      await deleteChild(Job, job, { propagationPolicy: 'Foreground' });
      // The message that createOnce ends with while the Job is being deleted. Another one would cost a status write.
      const message = `Job ${job.metadata.name} is being deleted: a new one is created when it is gone`;
      return { reason: 'Replacing', message };
    },
  });

/**
 * The CronJob controller takes each Job for its own whose controller has the CronJob's name, whatever its kind
 * (k8s.io/kubernetes/pkg/controller/cronjob, getJobsToBeReconciled).
 */
const cronJobTakesJob = ({ metadata: { name } }: Echo): Outcome<'NameTaken', Echo> => ({
  reason: 'NameTaken',
  message: `CronJob ${name} would take the Job of this Echo for its own, and delete it with its log: delete the CronJob, or give the Echo another name`,
});

/** Whether the message was printed, even if the Job no longer exists. */
const isPrinted = ({ metadata, status }: Echo): boolean => status?.completedGeneration === metadata.generation;

/** The status of an Echo with this Job of its generation, or with none. */
function statusOf(echo: Echo, job?: Job) {
  const { startTime = null, completionTime = null } = job?.status ?? {};
  const { completedGeneration = 0 } = echo.status ?? {};
  return {
    // Somebody has edited it, or restored it from a backup of an earlier object: the generations count from 1 again.
    ...(completedGeneration > echo.metadata.generation && { completedGeneration: null }),
    phase: job === undefined ? 'Pending' : jobPhase(job),
    jobName: jobNameOf(echo),
    startTime,
    completionTime,
  } as const;
}

/**
 * The outcome for an Echo with a Job, which may have been deleted after it completed.
 *
 * @param problem why the Job has no pod, or its pod does not start or end.
 */
export function outcomeOf(echo: Echo, job: Job, problem?: string): EchoOutcome {
  const { name } = job.metadata;
  const status = statusOf(echo, job);
  if (status.phase === 'Succeeded') {
    return { ...printedOutcome(name), status: { ...status, completedGeneration: echo.metadata.generation } };
  }
  if (status.phase === 'Failed') {
    const causes = [failureMessage(job), problem].filter((cause) => cause !== undefined);
    return { reason: 'JobFailed', message: `Job ${name} has failed: ${causes.join('; ')}`, status };
  }
  const message =
    problem === undefined ? `Job ${name} prints the message` : `Job ${name} has not completed: ${problem}`;
  return { reason: 'Printing', message, status };
}

/** The status keeps its times. */
const printedOutcome = (jobName: string): EchoOutcome => ({
  reason: 'Printed',
  message: `Job ${jobName} has printed the message`,
  status: { phase: 'Succeeded', jobName },
});
