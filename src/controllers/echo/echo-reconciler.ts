import { Echo } from '../../api/index.ts';
import {
  done,
  type EventRecorder,
  isControlledBy,
  isNotFound,
  keyOf,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
  type Result,
  TerminalError,
} from '../../runtime/index.ts';
import { Job } from '../built-in-kinds.ts';
import { isInvalidField, isRefusal } from '../refusal.ts';
import { isCurrent, reportReady } from '../report-ready.ts';
import type { DeletedJobs } from './deleted-jobs.ts';
import { echoJob, isOfCurrentGeneration, jobKeyOf, jobPhase } from './echo-job.ts';
import { desiredStatus, type Finding, findingOf, isWarning, printedFinding, waitingFinding } from './echo-status.ts';

/** What the reconciler reads and writes by. */
export interface EchoReconcilerOptions {
  readonly echos: ReadonlyStore<Echo>;
  readonly jobs: ReadonlyStore<Job>;
  readonly deletedJobs: DeletedJobs;
  readonly events: EventRecorder;
  /** The image whose printf prints the message. */
  readonly image: string;
}

/**
 * Runs one Job per generation of an Echo: a Job of an older generation is deleted and, when it is gone, followed by a
 * new one; a Job deleted before it completed is made again, one that completed is not.
 */
export class EchoReconciler {
  readonly #options: EchoReconcilerOptions;

  constructor(options: EchoReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const echo = this.#options.echos.get(key);
    if (echo === undefined) {
      // Its Job goes with it: the garbage collector follows the owner reference.
      this.#options.deletedJobs.forget(jobKeyOf(key));
      return done;
    }
    if (echo.metadata.deletionTimestamp !== undefined) return done;
    const finding = await this.#act(echo, context);
    if (finding !== undefined) await this.#report(echo, finding, context);
    return done;
  }

  /** Brings the Job to what the Echo asks for, and tells what there is to report; undefined: nothing new. */
  async #act(echo: Echo, context: ReconcileContext): Promise<Finding | undefined> {
    // An Echo made under the first CRD, which let it be stored without a spec.
    if ((echo.spec as Echo['spec'] | undefined)?.message === undefined) {
      return { reason: 'InvalidSpec', message: 'spec.message is missing', fields: {} };
    }
    const jobKey = jobKeyOf(keyOf(echo));
    if (echo.status?.completedGeneration === echo.metadata.generation) {
      this.#options.deletedJobs.forget(jobKey);
      return printedFinding(echo);
    }
    const job = this.#options.jobs.get(jobKey);
    if (job === undefined) return this.#withoutJob(echo, jobKey, context);
    if (!isControlledBy(job, echo)) {
      return waitingFinding(echo, 'JobNameTaken', `a Job named ${jobKey.name} exists and is not this Echo's`);
    }
    if (isOfCurrentGeneration(job, echo)) return findingOf(echo, job);
    return this.#replace(echo, job, context);
  }

  async #withoutJob(echo: Echo, jobKey: ObjectKey, context: ReconcileContext): Promise<Finding | undefined> {
    const deleted = this.#options.deletedJobs.of(echo, jobKey);
    if (deleted !== undefined) {
      if (jobPhase(deleted) === 'Succeeded') return findingOf(echo, deleted);
      if (!(await isCurrent(context.client, Echo, echo))) return undefined;
    }
    try {
      return findingOf(echo, await context.client.create(Job, echoJob(echo, this.#options.image)));
    } catch (error) {
      if (isRefusal(error)) {
        const finding = waitingFinding(echo, 'JobRefused', error.status.message ?? error.message);
        await this.#report(echo, finding, context);
      }
      // Of a bad field the API server will say the same again. A policy, which names none, may be changed.
      if (isInvalidField(error)) throw new TerminalError(error.message, { cause: error });
      throw error;
    }
  }

  /** The new Job comes when the old one's DELETED event brings the key back: two never run at once. */
  async #replace(echo: Echo, job: Job, context: ReconcileContext): Promise<Finding | undefined> {
    const { name, uid, deletionTimestamp } = job.metadata;
    if (deletionTimestamp === undefined) {
      if (!(await isCurrent(context.client, Echo, echo))) return undefined;
      await context.client.delete(Job, keyOf(job), { uid, propagationPolicy: 'Foreground' }).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
    }
    return waitingFinding(echo, 'Replacing', `Job ${name} of an earlier spec is being deleted`);
  }

  #report(echo: Echo, finding: Finding, context: ReconcileContext): Promise<void> {
    const { reason, message } = finding;
    const status = desiredStatus(echo, finding, new Date());
    const report = { reason, message, isWarning: isWarning(reason), status };
    return reportReady(this.#options.events, Echo, echo, report, context);
  }
}
