import { Echo } from '../../api/index.ts';
import {
  ApiError,
  done,
  type EventRecorder,
  findCondition,
  isAlreadyExists,
  isControlledBy,
  isNamespaceTerminating,
  isNotFound,
  keyOf,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
  type Result,
  TerminalError,
} from '../../runtime/index.ts';
import { Job } from '../built-in-kinds.ts';
import { echoJob, isOfCurrentGeneration, jobKeyOf } from './echo-job.ts';
import { type Finding, findingOf, isWarning, statusPatch, waitingFinding } from './echo-status.ts';
import type { FinishedJobs } from './finished-jobs.ts';

/** What the reconciler reads and writes by. */
export interface EchoReconcilerOptions {
  readonly echos: ReadonlyStore<Echo>;
  readonly jobs: ReadonlyStore<Job>;
  readonly finishedJobs: FinishedJobs;
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
      this.#options.finishedJobs.forget(jobKeyOf(key));
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
    const job = this.#options.jobs.get(jobKey);
    if (job === undefined) return this.#withoutJob(echo, jobKey, context);
    if (!isControlledBy(job, echo)) {
      return waitingFinding(echo, 'JobNameTaken', `a Job named ${jobKey.name} exists and is not this Echo's`);
    }
    if (isOfCurrentGeneration(job, echo)) return findingOf(echo, job);
    return this.#replace(echo, job, context);
  }

  async #withoutJob(echo: Echo, jobKey: ObjectKey, context: ReconcileContext): Promise<Finding | undefined> {
    if (echo.status?.completedGeneration === echo.metadata.generation) {
      this.#options.finishedJobs.forget(jobKey);
      return undefined;
    }
    const finished = this.#options.finishedJobs.of(echo, jobKey);
    if (finished !== undefined) return findingOf(echo, finished);
    try {
      return findingOf(echo, await context.client.create(Job, echoJob(echo, this.#options.image)));
    } catch (error) {
      // The store has not seen it yet; its event brings the key back.
      if (isAlreadyExists(error)) return undefined;
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
  async #replace(echo: Echo, job: Job, context: ReconcileContext): Promise<Finding> {
    const { name, uid, deletionTimestamp } = job.metadata;
    if (deletionTimestamp === undefined) {
      await context.client.delete(Job, keyOf(job), { uid, propagationPolicy: 'Foreground' }).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
    }
    return waitingFinding(echo, 'Replacing', `Job ${name} of an earlier spec is being deleted`);
  }

  async #report(echo: Echo, finding: Finding, { client, log }: ReconcileContext): Promise<void> {
    const patch = statusPatch(echo, finding, new Date());
    if (patch === undefined) return;
    const { resourceVersion } = echo.metadata;
    try {
      await client.mergeStatus(Echo, { ...keyOf(echo), resourceVersion }, patch);
    } catch (error) {
      // Deleted meanwhile: there is nobody left to report to.
      if (isNotFound(error)) return;
      throw error;
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
  error instanceof ApiError &&
  error.code === 422 &&
  (error.status.details?.causes?.some(({ field }) => field) ?? false);

/** The server will not have this Job: a quota, a policy, a bad field. In a namespace on its way out nobody cares. */
function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.code === 403 || error.code === 422) && !isNamespaceTerminating(error);
}
