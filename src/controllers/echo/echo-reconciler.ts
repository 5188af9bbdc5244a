import { Echo } from '../../api/index.ts';
import {
  ApiError,
  done,
  type EventRecorder,
  findCondition,
  isControlledBy,
  isInvalid,
  isNamespaceTerminating,
  isNotFound,
  keyOf,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
  type Result,
  reportStatus,
  TerminalError,
} from '../../runtime/index.ts';
import { Job } from '../built-in-kinds.ts';
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
      if (!(await this.#isCurrent(echo, context))) return undefined;
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
      if (!(await this.#isCurrent(echo, context))) return undefined;
      await context.client.delete(Job, keyOf(job), { uid, propagationPolicy: 'Foreground' }).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
    }
    return waitingFinding(echo, 'Replacing', `Job ${name} of an earlier spec is being deleted`);
  }

  /**
   * Asks the API server whether the Echo still is as the store has it. A watch that lags, or whose connection died
   * without a word, leaves one there that was deleted or has another spec by now: what is done again for that one, or
   * to a Job of a later spec, others undo at once, and so on until the watch is mended. The store's next change brings
   * the key back.
   */
  async #isCurrent({ metadata }: Echo, { client }: ReconcileContext): Promise<boolean> {
    try {
      const { uid, generation, deletionTimestamp } = (await client.get(Echo, metadata)).metadata;
      return uid === metadata.uid && generation === metadata.generation && deletionTimestamp === undefined;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  async #report(echo: Echo, finding: Finding, context: ReconcileContext): Promise<void> {
    const { client, log } = context;
    try {
      const reported = await reportStatus(client, Echo, echo, desiredStatus(echo, finding, new Date()));
      if (reported === undefined) return;
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // Deleted meanwhile: there is nobody left to report to.
      if (!(await this.#isCurrent(echo, context))) return;
      const message = "the Echo is there, but takes no status: apply this version's CustomResourceDefinition";
      throw new Error(message, { cause: error });
    }
    if (findCondition(echo.status?.conditions, 'Ready')?.reason === finding.reason) return;
    log.info({ reason: finding.reason }, finding.message);
    this.#options.events.record(Echo, echo, {
      type: isWarning(finding.reason) ? 'Warning' : 'Normal',
      reason: finding.reason,
      action: 'Reconcile',
      note: finding.message,
    });
  }
}

const isInvalidField = (error: unknown): error is ApiError =>
  isInvalid(error) && error.causes.some(({ field }) => field);

/** Forbidden and Invalid; and what admission webhooks and policies say, a webhook that gives no code 400. */
const refusalCodes: readonly number[] = [400, 403, 413, 422];

/** The server will not have this Job: a quota, a policy, a bad field. In a namespace on its way out nobody cares. */
function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && refusalCodes.includes(error.code) && !isNamespaceTerminating(error);
}
