/** ScheduledEcho: a CronJob prints the message on a schedule. */

import {
  child,
  controllerOf,
  defineController,
  keyOf,
  type ObjectKey,
  type Predicate,
  predicates,
} from '@echoperator/runtime';
import { ApiError, type Client, cutText, isRefusal } from '@echoperator/runtime/client';
import { allow } from '@echoperator/runtime/controller';
import { CronJob, Event, Job, Pod } from '@echoperator/runtime/kinds';
import { Echo } from '../echo/kind.ts';
import { limits } from '../shared/limits.ts';
import { type ChildWithoutPod, type MissingPodsMemory, whyNoPod } from '../shared/missing-pods.ts';
import { affectsPodProblem, overdueProblemAmong, problemAmong, untilOverdueMs } from '../shared/pods.ts';
import type { PrintPodSettings } from '../shared/print-pod.ts';
import { cronJobNameOf, cronJobOf } from './cron-job.ts';
import { ScheduledEcho } from './kind.ts';

/** The reasons of `Ready` of a ScheduledEcho, beside the standard ones. */
const scheduledEchoReasons = {
  Scheduled: { ready: 'True', event: 'Normal', meaning: 'The CronJob is as the spec asks.' },
  Suspended: { ready: 'True', event: 'Normal', meaning: 'The CronJob is as the spec asks, and suspended.' },
  JobStuck: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning:
      'The last Job has no pod, for example because of a quota, or its pod does not end. Until it does, the CronJob starts no other Job. The message says why.',
  },
  InvalidSchedule: {
    ready: 'False',
    event: 'Warning',
    blocksCreation: true,
    recordsMessageChanges: true,
    meaning:
      'The API server refuses the schedule or the time zone. The message quotes it. An existing CronJob keeps its last valid schedule. The operator retries at least once a minute.',
  },
} as const;

/**
 * Applies the CronJob of a ScheduledEcho. The API server decides whether a schedule is valid.
 *
 * @param pod settings of the pods that print.
 */
export const scheduledEchoController = (pod: PrintPodSettings) =>
  defineController(ScheduledEcho, {
    reasons: scheduledEchoReasons,
    memory: (): MissingPodsMemory => ({}),
    owns: [{ kind: CronJob, deletes: true }],
    indexes: { byActiveJob: { kind: CronJob, values: (cronJob) => activeJobs(cronJob).map(({ uid = '' }) => uid) } },
    watches: [
      {
        kind: Pod,
        predicate: predicates.or(affectsPodProblem, isAdded),
        keys: (pod, { find, ownersAskingFor }) =>
          find('byActiveJob', controllerOf(pod)?.uid ?? '').flatMap((cronJob) =>
            ownersAskingFor(CronJob, keyOf(cronJob)),
          ),
      },
    ],
    // The Events of a Job without a pod. An Echo that has the name of a new CronJob.
    permissions: [allow(['list'], Event), allow(['get'], Echo)],
    observe: (echo, { owned }) => ({ status: statusOf(echo, owned(CronJob)) }),
    reconcile: async (echo, { applyAll, get, owned, client, memory }) => {
      const name = cronJobNameOf(echo, owned(CronJob));
      if (get(CronJob, name) === undefined && (await hasEcho(client, { ...keyOf(echo), name }))) {
        const message = `a CronJob ${name} would take the Job of the Echo of that name for its own, and delete it with its log: delete the Echo, or give the ScheduledEcho another name`;
        return { reason: 'NameTaken', message, requeueAfterMs: nameRecheckMs };
      }
      // Deletes the second one that two versions of the operator have made in turn: the message would be printed twice.
      const [cronJob] = await applyAll([child(CronJob, cronJobOf(echo, name, pod))], { prune: true });
      const podsOf = (uid: string) => owned(Pod, { metadata: { uid } });
      const pods = activeJobs(cronJob).flatMap(({ uid = '' }) => podsOf(uid));
      const job = jobWithoutPod(cronJob, podsOf);
      if (job === undefined) delete memory.missingPods;
      const missing = job && (await whyNoPod(job, { client, memory }));
      const requeueAfterMs = missing?.requeueAfterMs ?? untilOverdueMs(pods);
      const stuck =
        missing?.problem === undefined
          ? overdueProblemAmong(pods)
          : `Job ${job?.metadata.name} has no pod: ${missing.problem}`;
      if (stuck !== undefined) {
        const message = `CronJob ${name} starts no other Job: ${stuck}`;
        return { reason: 'JobStuck', message, status: statusOf(echo, [cronJob]), requeueAfterMs };
      }
      const problem = problemAmong(pods);
      const suffix = problem === undefined ? '' : `; ${problem}`;
      const { schedule, timeZone, suspend } = echo.spec;
      const zone = timeZone === undefined ? '' : ` in ${timeZone}`;
      return {
        reason: suspend ? 'Suspended' : 'Scheduled',
        message: suspend
          ? `CronJob ${name} is suspended${suffix}`
          : `CronJob ${name} prints the message at ${schedule}${zone}${suffix}`,
        status: statusOf(echo, [cronJob]),
        requeueAfterMs,
      };
    },
    failed: (error, echo, { owned }) => {
      const causes = isRefusal(error)
        ? error.causes.filter(({ field }) => field === 'spec.schedule' || field === 'spec.timeZone')
        : [];
      if (causes.length === 0) return undefined;
      const errors = causes.map(({ field, message }) => `${field}: ${message}`);
      if (ownCronJob(echo, owned(CronJob)) !== undefined) errors.push('the CronJob keeps its last valid schedule');
      return { reason: 'InvalidSchedule', message: errors.join('; ') };
    },
  });

/** True if the pod is new: its Job is no longer without one. */
const isAdded: Predicate<Pod> = ({ type }) => type === 'added';

/**
 * When to look again whether an Echo still has the name. That is rare: without a watch, the controller works where
 * Echos are not installed.
 */
const nameRecheckMs = 60_000;

/** Asks the API server, because the Echo may be newer than the cache. */
async function hasEcho(client: Client, key: ObjectKey): Promise<boolean> {
  try {
    await client.get(Echo, key);
    return true;
  } catch (error) {
    // Also without the definition of Echo, or the right to read Echos, which older roles lack.
    if (error instanceof ApiError && (error.code === 404 || error.code === 403)) return false;
    throw error;
  }
}

/** The Jobs of a CronJob that have not finished. */
const activeJobs = ({ status }: CronJob): readonly { readonly name?: string; readonly uid?: string }[] =>
  status?.active ?? [];

/**
 * The last active Job, if it has no pod. The controller of CronJobs sets the time when it starts the Job, but may start
 * it late.
 */
function jobWithoutPod(
  { metadata, status }: CronJob,
  podsOf: (uid: string) => readonly Pod[],
): ChildWithoutPod | undefined {
  const { name = '', uid = '' } = status?.active?.at(-1) ?? {};
  if (uid === '' || podsOf(uid).length > 0) return undefined;
  const sinceMs = Date.parse(status?.lastScheduleTime ?? metadata.creationTimestamp);
  const { namespace = '' } = metadata;
  return { kind: Job, metadata: { namespace, name: cutText(name), uid }, sinceMs };
}

/**
 * The API server checks none of the names in a CronJob's status, but refuses a ScheduledEcho with an invalid or a
 * repeated one.
 */
function namesOfActive(cronJob: CronJob): readonly string[] {
  const names = activeJobs(cronJob).flatMap(({ name = '' }) => (name.length <= limits.name ? [name] : []));
  return [...new Set(names)].sort().slice(0, limits.activeJobs);
}

const ownCronJob = (echo: ScheduledEcho, cronJobs: readonly CronJob[]): CronJob | undefined =>
  cronJobs.find(({ metadata }) => metadata.name === cronJobNameOf(echo, cronJobs));

/** The status without the conditions. @param cronJobs that the ScheduledEcho controls */
function statusOf(echo: ScheduledEcho, cronJobs: readonly CronJob[]) {
  const cronJob = ownCronJob(echo, cronJobs);
  const { lastScheduleTime = null, lastSuccessfulTime = null } = cronJob?.status ?? {};
  const jobs = cronJob === undefined ? [] : namesOfActive(cronJob);
  return {
    cronJobName: cronJobNameOf(echo, cronJobs),
    active: jobs.length === 0 ? null : jobs,
    lastScheduleTime,
    lastSuccessfulTime,
  };
}
