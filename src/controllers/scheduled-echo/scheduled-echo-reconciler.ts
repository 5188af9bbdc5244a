import { ScheduledEcho } from '../../api/index.ts';
import type { ApiError } from '../../runtime/client/index.ts';
import { isPredecessors } from '../../runtime/controller/index.ts';
import {
  type Applied,
  type Applier,
  defineReasons,
  done,
  type EventRecorder,
  findCondition,
  isControlledBy,
  keyOf,
  missingField,
  type ObjectKey,
  type Outcome,
  OutcomeReporter,
  type ReadonlyStore,
  type ReasonOf,
  type ReconcileContext,
  type Result,
} from '../../runtime/index.ts';
import { CronJob, type Pod } from '../built-in-kinds.ts';
import { problemAmong } from '../pods.ts';
import { wordsOf } from '../refusal.ts';
import { cronJobKeyOf, cronJobOf } from './cron-job.ts';

/** The reasons of `Ready` of a ScheduledEcho. */
export const scheduledEchoReasons = defineReasons({
  Scheduled: { ready: 'True', event: 'Normal', meaning: 'The CronJob is as the spec asks.' },
  Suspended: { ready: 'True', event: 'Normal', meaning: 'The CronJob is as the spec asks: suspended.' },
  Replacing: {
    ready: 'False',
    event: 'Normal',
    meaning:
      'The CronJob is being deleted, or belongs to an earlier ScheduledEcho of this name, with which the garbage collector deletes it. It is made again when it is gone.',
  },
  InvalidSchedule: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning:
      'The API server does not accept the schedule or the time zone; the message quotes it. The last good CronJob goes on. The operator retries at least once a minute.',
  },
  CronJobNameTaken: {
    ready: 'False',
    event: 'Warning',
    meaning: 'A CronJob of that name exists and does not belong to this ScheduledEcho. It is left alone.',
  },
  CronJobRefused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The API server refuses the CronJob for another reason: a quota, a policy, missing permission. The message quotes it. The operator retries at least once a minute.',
  },
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning:
      '`message` or `schedule` is missing: the ScheduledEcho was stored under another definition. A CronJob that exists goes on.',
  },
});

type ScheduledEchoOutcome = Outcome<ReasonOf<typeof scheduledEchoReasons>, ScheduledEcho>;

/** What the reconciler reads and writes. */
export interface ScheduledEchoReconcilerOptions {
  readonly echos: ReadonlyStore<ScheduledEcho>;
  readonly cronJobs: ReadonlyStore<CronJob>;
  readonly pods: ReadonlyStore<Pod>;
  readonly applier: Applier;
  readonly events: EventRecorder;
  /** The image whose printf prints the message. */
  readonly image: string;
}

/** Keeps one CronJob as a ScheduledEcho asks for it. The API server decides whether a schedule is valid. */
export class ScheduledEchoReconciler {
  readonly #options: ScheduledEchoReconcilerOptions;
  readonly #reporter: OutcomeReporter<ScheduledEcho, ReasonOf<typeof scheduledEchoReasons>>;

  constructor(options: ScheduledEchoReconcilerOptions) {
    this.#options = options;
    this.#reporter = new OutcomeReporter({
      kind: ScheduledEcho,
      reasons: scheduledEchoReasons,
      events: options.events,
      refused: (echo, refusal) => ({ ...reasonOf(refusal), status: statusOf(echo, this.#ownCronJob(echo)) }),
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const echo = this.#options.echos.get(key);
    // The garbage collector deletes the CronJob with its owner.
    if (echo === undefined || echo.metadata.deletionTimestamp !== undefined) return done;
    return this.#reporter.reconcile(echo, context, () => this.#act(echo, context));
  }

  async #act(echo: ScheduledEcho, context: ReconcileContext): Promise<ScheduledEchoOutcome> {
    const missing = missingField(ScheduledEcho, echo);
    if (missing !== undefined) {
      const status = statusOf(echo, this.#ownCronJob(echo));
      return { reason: 'InvalidSpec', message: `${missing} is missing`, status };
    }
    const { applier, cronJobs, image } = this.#options;
    const { client } = context;
    const applied = await applier.apply(CronJob, cronJobOf(echo, image), { client, store: cronJobs });
    if (applied.type === 'nameTaken') return nameTaken(echo, applied.holder);
    const cronJob = applied.object;
    if (applied.type === 'terminating') {
      const message = `CronJob ${cronJob.metadata.name} is being deleted, and made again when it is gone`;
      return { reason: 'Replacing', message, status: statusOf(echo, cronJob) };
    }
    this.#tellRepair(echo, applied, context);
    return this.#scheduled(echo, cronJob);
  }

  #scheduled(echo: ScheduledEcho, cronJob: CronJob): ScheduledEchoOutcome {
    const { name } = cronJob.metadata;
    const { schedule, timeZone, suspend } = echo.spec;
    const status = statusOf(echo, cronJob);
    const problem = problemAmong(activeJobs(cronJob).flatMap(({ uid = '' }) => [...this.#options.pods.byOwner(uid)]));
    const also = problem === undefined ? '' : `; ${problem}`;
    if (suspend) return { reason: 'Suspended', message: `CronJob ${name} is suspended${also}`, status };
    const zone = timeZone === undefined ? '' : ` in ${timeZone}`;
    return { reason: 'Scheduled', message: `CronJob ${name} prints the message at ${schedule}${zone}${also}`, status };
  }

  /** Tells that the CronJob was missing or different: somebody deleted or edited it, or the spec has changed. */
  #tellRepair(echo: ScheduledEcho, applied: Applied<CronJob>, context: ReconcileContext): void {
    const name = cronJobKeyOf(keyOf(echo)).name;
    if (applied.type === 'applied') {
      const note = `CronJob ${name} was not as the spec asks in ${applied.difference}: applied`;
      this.#reporter.tell(echo, { type: 'Normal', reason: 'CronJobChanged', note }, context);
    }
    if (applied.type === 'created' && findCondition(echo.status?.conditions, 'Ready')?.status === 'True') {
      const note = `CronJob ${name} was deleted: made again`;
      this.#reporter.tell(echo, { type: 'Normal', reason: 'CronJobRecreated', note }, context);
    }
  }

  #ownCronJob(echo: ScheduledEcho): CronJob | undefined {
    const cronJob = this.#options.cronJobs.get(cronJobKeyOf(keyOf(echo)));
    return cronJob !== undefined && isControlledBy(cronJob, echo) ? cronJob : undefined;
  }
}

/** The Jobs of a CronJob that have not finished. */
export const activeJobs = ({ status }: CronJob): readonly { readonly name?: string; readonly uid?: string }[] =>
  status?.active ?? [];

/** The status besides the conditions; `cronJob` if there is one that is ours. */
function statusOf(echo: ScheduledEcho, cronJob?: CronJob) {
  const { lastScheduleTime = null, lastSuccessfulTime = null } = cronJob?.status ?? {};
  const jobs = cronJob === undefined ? [] : activeJobs(cronJob).map(({ name = '' }) => name);
  return {
    cronJobName: cronJobKeyOf(keyOf(echo)).name,
    active: jobs.length === 0 ? null : jobs.sort(),
    lastScheduleTime,
    lastSuccessfulTime,
  };
}

function reasonOf(refusal: ApiError): Pick<ScheduledEchoOutcome, 'reason' | 'message'> {
  const causes = refusal.causes.filter(({ field }) => field === 'spec.schedule' || field === 'spec.timeZone');
  if (causes.length === 0) return { reason: 'CronJobRefused', message: wordsOf(refusal) };
  const words = causes.map(({ field, message }) => `${field}: ${message}`);
  return { reason: 'InvalidSchedule', message: [...words, 'the CronJob is left as it is'].join('; ') };
}

function nameTaken(echo: ScheduledEcho, holder: CronJob): ScheduledEchoOutcome {
  const { name } = holder.metadata;
  const status = statusOf(echo);
  if (isPredecessors(holder, ScheduledEcho, echo)) {
    const message = `CronJob ${name} belongs to an earlier ScheduledEcho of this name, and is made again when it is gone`;
    return { reason: 'Replacing', message, status };
  }
  const message = `a CronJob named ${name} exists and is not this ScheduledEcho's`;
  return { reason: 'CronJobNameTaken', message, status };
}
