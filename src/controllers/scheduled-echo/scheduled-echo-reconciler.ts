import { ScheduledEcho } from '../../api/index.ts';
import {
  type ApiError,
  type Applied,
  type Applier,
  controllerOf,
  done,
  type EventRecorder,
  findCondition,
  isControlledBy,
  keyOf,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
  type Result,
} from '../../runtime/index.ts';
import { CronJob } from '../built-in-kinds.ts';
import { isInvalidField, isRefusal } from '../refusal.ts';
import { reportReady } from '../report-ready.ts';
import { cronJobKeyOf, cronJobOf } from './cron-job.ts';
import { type Finding, readyReport } from './scheduled-echo-status.ts';

/** What the reconciler reads and writes by. */
export interface ScheduledEchoReconcilerOptions {
  readonly echos: ReadonlyStore<ScheduledEcho>;
  readonly cronJobs: ReadonlyStore<CronJob>;
  readonly applier: Applier;
  readonly events: EventRecorder;
  /** The image whose printf prints the message. */
  readonly image: string;
}

/** Keeps one CronJob as a ScheduledEcho asks for it. Whether a schedule is one, the API server knows. */
export class ScheduledEchoReconciler {
  readonly #options: ScheduledEchoReconcilerOptions;

  constructor(options: ScheduledEchoReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const echo = this.#options.echos.get(key);
    // Its CronJob goes with it: the garbage collector follows the owner reference.
    if (echo === undefined || echo.metadata.deletionTimestamp !== undefined) return done;
    await this.#report(echo, await this.#act(echo, context), context);
    return done;
  }

  async #act(echo: ScheduledEcho, context: ReconcileContext): Promise<Finding> {
    const missing = missingField(echo);
    if (missing !== undefined) {
      return { reason: 'InvalidSpec', message: `spec.${missing} is missing`, cronJob: this.#ownCronJob(echo) };
    }
    const refused = this.#refusedBefore(echo);
    if (refused !== undefined) return refused;
    const { applier, cronJobs, image } = this.#options;
    try {
      const { client } = context;
      const applied = await applier.apply(CronJob, cronJobOf(echo, image), { client, store: cronJobs });
      switch (applied.type) {
        case 'nameTaken':
          return nameTaken(echo, applied.holder);
        case 'terminating':
          return {
            reason: 'Replacing',
            message: `CronJob ${applied.object.metadata.name} is being deleted, and made again when it is gone`,
            cronJob: applied.object,
          };
        case 'applied':
          this.#tell(echo, applied, context);
          return scheduled(echo, applied.object);
        default:
          return scheduled(echo, applied.object);
      }
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const finding = this.#refusal(echo, error);
      if (finding.reason === 'InvalidSchedule') return finding;
      await this.#report(echo, finding, context);
      throw error;
    }
  }

  /** The API server has refused this very spec: it would again, and the last good CronJob goes on. */
  #refusedBefore(echo: ScheduledEcho): Finding | undefined {
    const ready = findCondition(echo.status?.conditions, 'Ready');
    if (ready?.reason !== 'InvalidSchedule' || ready.observedGeneration !== echo.metadata.generation) return undefined;
    return { reason: 'InvalidSchedule', message: ready.message, cronJob: this.#ownCronJob(echo) };
  }

  #refusal(echo: ScheduledEcho, error: ApiError): Finding {
    const cronJob = this.#ownCronJob(echo);
    const causes = error.causes.filter(({ field }) => field === 'spec.schedule' || field === 'spec.timeZone');
    const message = error.status.message ?? error.message;
    if (!isInvalidField(error) || causes.length === 0) return { reason: 'CronJobRefused', message, cronJob };
    const words = causes.map((cause) => `${cause.field}: ${cause.message}`);
    const rest = 'until the spec changes, the CronJob is left as it is';
    return { reason: 'InvalidSchedule', message: [...words, rest].join('; '), cronJob };
  }

  /** The spec has changed, or somebody has changed the CronJob. */
  #tell(
    echo: ScheduledEcho,
    { object, difference }: Applied<CronJob> & { type: 'applied' },
    { log }: ReconcileContext,
  ) {
    log.info({ difference }, 'the CronJob was not as the spec asks: applied');
    const note = `CronJob ${object.metadata.name} was not as the spec asks in ${difference}: applied`;
    this.#options.events.record(ScheduledEcho, echo, {
      type: 'Normal',
      reason: 'CronJobChanged',
      action: 'Reconcile',
      note,
    });
  }

  #ownCronJob(echo: ScheduledEcho): CronJob | undefined {
    const cronJob = this.#options.cronJobs.get(cronJobKeyOf(keyOf(echo)));
    return cronJob !== undefined && isControlledBy(cronJob, echo) ? cronJob : undefined;
  }

  #report(echo: ScheduledEcho, finding: Finding, context: ReconcileContext): Promise<void> {
    return reportReady(this.#options.events, ScheduledEcho, echo, readyReport(echo, finding, new Date()), context);
  }
}

/** What one lacks that was stored under another definition, which let it do without. */
function missingField({ spec }: { readonly spec?: Partial<ScheduledEcho['spec']> }): string | undefined {
  if (spec?.message === undefined) return 'message';
  return spec.schedule === undefined ? 'schedule' : undefined;
}

function nameTaken({ metadata }: ScheduledEcho, holder: CronJob): Finding {
  const { name } = holder.metadata;
  const owner = controllerOf(holder);
  const isOfOurKind = owner?.kind === ScheduledEcho.kind && owner.apiVersion.startsWith(`${ScheduledEcho.group}/`);
  // Deleted and made again at once: the garbage collector has yet to delete what belonged to the one before.
  if (isOfOurKind && owner.name === metadata.name) {
    const message = `CronJob ${name} belongs to an earlier ScheduledEcho of this name, and is made again when it is gone`;
    return { reason: 'Replacing', message };
  }
  return { reason: 'CronJobNameTaken', message: `a CronJob named ${name} exists and is not this ScheduledEcho's` };
}

function scheduled({ spec }: ScheduledEcho, cronJob: CronJob): Finding {
  const { name } = cronJob.metadata;
  if (spec.suspend) return { reason: 'Suspended', message: `CronJob ${name} is suspended`, cronJob };
  const zone = spec.timeZone === undefined ? '' : ` in ${spec.timeZone}`;
  return { reason: 'Scheduled', message: `CronJob ${name} prints the message at ${spec.schedule}${zone}`, cronJob };
}
