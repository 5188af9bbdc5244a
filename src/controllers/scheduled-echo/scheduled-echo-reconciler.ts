import { limits, ScheduledEcho } from '../../api/index.ts';
import type { ApiError } from '../../runtime/client/index.ts';
import { isCurrent, specProblem } from '../../runtime/controller/index.ts';
import {
  type Applier,
  defineReasons,
  done,
  type EventRecorder,
  findCondition,
  isControlledBy,
  keyOf,
  type ObjectKey,
  type Outcome,
  OutcomeReporter,
  type ReadonlyStore,
  type ReasonOf,
  type ReconcileContext,
  type Result,
} from '../../runtime/index.ts';
import { CronJob, type Pod } from '../../runtime/kinds/index.ts';
import { beingDeleted, nameTaken } from '../name-taken.ts';
import { problemAmong, untilOverdueMs } from '../pods.ts';
import type { PrintPodSettings } from '../print-pod.ts';
import { serverMessage } from '../refusal.ts';
import { cronJobKeyOf, cronJobOf } from './cron-job.ts';

/** The reasons of `Ready` of a ScheduledEcho. */
export const scheduledEchoReasons = defineReasons({
  Scheduled: { ready: 'True', event: 'Normal', meaning: 'The CronJob is as the spec asks.' },
  Suspended: { ready: 'True', event: 'Normal', meaning: 'The CronJob is as the spec asks, and suspended.' },
  Replacing: {
    ready: 'False',
    event: 'Normal',
    blocksCreation: true,
    meaning:
      'The CronJob is being deleted, or belongs to an earlier ScheduledEcho of this name. The operator creates a new one when it is gone.',
  },
  InvalidSchedule: {
    ready: 'False',
    event: 'Warning',
    blocksCreation: true,
    recordsMessageChanges: true,
    meaning:
      'The API server refuses the schedule or the time zone. The message quotes it. An existing CronJob keeps its last valid schedule. The operator retries at least once a minute.',
  },
  CronJobNameTaken: {
    ready: 'False',
    event: 'Warning',
    blocksCreation: true,
    meaning:
      'A CronJob of that name exists and does not belong to this ScheduledEcho. The operator does not change it.',
  },
  CronJobRefused: {
    ready: 'False',
    event: 'Warning',
    blocksCreation: true,
    meaning:
      'The API server refuses the CronJob for another reason, for example a quota, a policy or a missing permission. The message quotes it. The operator retries at least once a minute.',
  },
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    blocksCreation: true,
    recordsMessageChanges: true,
    meaning:
      '`message` or `schedule` is missing, or a field is too long: the ScheduledEcho was stored under an older CustomResourceDefinition. The operator does not change an existing CronJob.',
  },
});

type ScheduledEchoOutcome = Outcome<ReasonOf<typeof scheduledEchoReasons>, ScheduledEcho>;

/** Options of {@link ScheduledEchoReconciler}. */
export interface ScheduledEchoReconcilerOptions {
  readonly echos: ReadonlyStore<ScheduledEcho>;
  readonly cronJobs: ReadonlyStore<CronJob>;
  readonly pods: ReadonlyStore<Pod>;
  readonly applier: Applier;
  readonly events: EventRecorder;
  /** Settings of the pods that print. */
  readonly pod: PrintPodSettings;
}

/** Applies the CronJob of a ScheduledEcho. The API server decides whether a schedule is valid. */
export class ScheduledEchoReconciler {
  readonly #options: ScheduledEchoReconcilerOptions;
  readonly #reporter: OutcomeReporter<ScheduledEcho, ReasonOf<typeof scheduledEchoReasons>>;

  constructor(options: ScheduledEchoReconcilerOptions) {
    this.#options = options;
    this.#reporter = new OutcomeReporter({
      kind: ScheduledEcho,
      reasons: scheduledEchoReasons,
      events: options.events,
      refused: (echo, refusal) => {
        const cronJob = this.#ownCronJob(echo);
        return { ...reasonOf(refusal, cronJob), status: statusOf(echo, cronJob) };
      },
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const echo = this.#options.echos.get(key);
    // The garbage collector deletes the CronJob with its owner.
    if (echo === undefined || echo.metadata.deletionTimestamp !== undefined) return done;
    return this.#reporter.reconcile(echo, context, () => this.#reconcileCronJob(echo, context));
  }

  async #reconcileCronJob(echo: ScheduledEcho, context: ReconcileContext): Promise<ScheduledEchoOutcome | undefined> {
    const problem = specProblem(ScheduledEcho, echo);
    if (problem !== undefined) {
      const status = statusOf(echo, this.#ownCronJob(echo));
      return { reason: 'InvalidSpec', message: problem, status };
    }
    const { applier, cronJobs, pod } = this.#options;
    const { client } = context;
    // The garbage collector deletes the CronJob of a ScheduledEcho that is gone. While the watch lags behind that, the operator would create
    // it again and again.
    const isMissing = cronJobs.get(cronJobKeyOf(keyOf(echo))) === undefined;
    if (isMissing && hadCronJob(echo) && !(await isCurrent(client, ScheduledEcho, echo))) return undefined;
    const applied = await applier.apply(CronJob, cronJobOf(echo, pod), { client, store: cronJobs });
    if (applied.type === 'nameTaken') {
      const child = { kind: CronJob, holder: applied.holder };
      const taken = {
        reason: 'CronJobNameTaken',
        advice: 'delete it, or give the ScheduledEcho another name',
      } as const;
      return { ...nameTaken({ kind: ScheduledEcho, object: echo }, child, taken), status: statusOf(echo) };
    }
    const cronJob = applied.object;
    if (applied.type === 'terminating') {
      return { ...beingDeleted(CronJob, cronJob), status: statusOf(echo, cronJob) };
    }
    this.#reporter.recordChild(echo, CronJob, applied, context);
    return this.#scheduled(echo, cronJob);
  }

  #scheduled(echo: ScheduledEcho, cronJob: CronJob): ScheduledEchoOutcome {
    const { name } = cronJob.metadata;
    const { schedule, timeZone, suspend } = echo.spec;
    const status = statusOf(echo, cronJob);
    const pods = activeJobs(cronJob).flatMap(({ uid = '' }) => [...this.#options.pods.byOwner(uid)]);
    const problem = problemAmong(pods);
    const requeueAfterMs = untilOverdueMs(pods);
    const suffix = problem === undefined ? '' : `; ${problem}`;
    if (suspend)
      return { reason: 'Suspended', message: `CronJob ${name} is suspended${suffix}`, status, requeueAfterMs };
    const zone = timeZone === undefined ? '' : ` in ${timeZone}`;
    return {
      reason: 'Scheduled',
      message: `CronJob ${name} prints the message at ${schedule}${zone}${suffix}`,
      status,
      requeueAfterMs,
    };
  }

  #ownCronJob(echo: ScheduledEcho): CronJob | undefined {
    const cronJob = this.#options.cronJobs.get(cronJobKeyOf(keyOf(echo)));
    return cronJob !== undefined && isControlledBy(cronJob, echo) ? cronJob : undefined;
  }
}

/** Whether the CronJob existed according to the status, also under an earlier spec. */
const hadCronJob = ({ status }: ScheduledEcho): boolean =>
  findCondition(status?.conditions, 'Ready')?.status === 'True';

/** The Jobs of a CronJob that have not finished. */
export const activeJobs = ({ status }: CronJob): readonly { readonly name?: string; readonly uid?: string }[] =>
  status?.active ?? [];

/** The API server checks none of the names in a CronJob's status, but refuses a ScheduledEcho with an invalid or a repeated one. */
function namesOfActive(cronJob: CronJob): readonly string[] {
  const names = activeJobs(cronJob).flatMap(({ name = '' }) => (name.length <= limits.name ? [name] : []));
  return [...new Set(names)].sort().slice(0, limits.activeJobs);
}

/** The status without the conditions. `cronJob` is absent if the ScheduledEcho owns none. */
function statusOf(echo: ScheduledEcho, cronJob?: CronJob) {
  const { lastScheduleTime = null, lastSuccessfulTime = null } = cronJob?.status ?? {};
  const jobs = cronJob === undefined ? [] : namesOfActive(cronJob);
  return {
    cronJobName: cronJobKeyOf(keyOf(echo)).name,
    active: jobs.length === 0 ? null : jobs,
    lastScheduleTime,
    lastSuccessfulTime,
  };
}

/** @param cronJob the CronJob of the ScheduledEcho, if it exists. */
function reasonOf(refusal: ApiError, cronJob: CronJob | undefined): Pick<ScheduledEchoOutcome, 'reason' | 'message'> {
  const causes = refusal.causes.filter(({ field }) => field === 'spec.schedule' || field === 'spec.timeZone');
  if (causes.length === 0) return { reason: 'CronJobRefused', message: serverMessage(refusal) };
  const errors = causes.map(({ field, message }) => `${field}: ${message}`);
  if (cronJob !== undefined) errors.push('the CronJob keeps its last valid schedule');
  return { reason: 'InvalidSchedule', message: errors.join('; ') };
}
