import { Echo } from '../../api/index.ts';
import { currentReady, isCurrent, specProblem } from '../../runtime/controller/index.ts';
import {
  type Applier,
  defineReasons,
  deleteIfPresent,
  done,
  type EventRecorder,
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
import { Job, type Pod } from '../../runtime/kinds/index.ts';
import { nameTaken } from '../name-taken.ts';
import { problemAmong, untilOverdueMs } from '../pods.ts';
import type { PrintPodSettings } from '../print-pod.ts';
import { serverMessage } from '../refusal.ts';
import { type DeletedJobs, echoJob, failureMessage, isOfCurrentGeneration, jobKeyOf, jobPhase } from './echo-job.ts';

/** The reasons of `Ready` of an Echo. */
export const echoReasons = defineReasons({
  Printed: { ready: 'True', event: 'Normal', meaning: 'The Job has printed the message.' },
  Printing: { ready: 'False', event: 'Normal', meaning: 'The Job exists and has not finished.' },
  Replacing: {
    ready: 'False',
    event: 'Normal',
    meaning:
      'A Job of an earlier spec, or of an earlier Echo of this name, is being deleted. The operator creates the new Job when it is gone.',
  },
  JobFailed: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The Job has failed. The message quotes the job controller.',
  },
  JobNameTaken: {
    ready: 'False',
    event: 'Warning',
    meaning: 'A Job of that name exists and does not belong to this Echo. The operator does not change it.',
  },
  JobRefused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The API server refuses the Job, for example because of a quota, a policy or a missing permission. The message quotes it. The operator retries at least once a minute.',
  },
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning: 'The Echo has no message, or one that is too long: it was stored under an older CustomResourceDefinition.',
  },
});

type EchoOutcome = Outcome<ReasonOf<typeof echoReasons>, Echo>;

/** Options of {@link EchoReconciler}. */
export interface EchoReconcilerOptions {
  readonly echos: ReadonlyStore<Echo>;
  readonly jobs: ReadonlyStore<Job>;
  readonly pods: ReadonlyStore<Pod>;
  readonly deletedJobs: DeletedJobs;
  readonly applier: Pick<Applier, 'createOnce'>;
  readonly events: EventRecorder;
  /** Settings of the pods that print. */
  readonly pod: PrintPodSettings;
}

/**
 * Runs one Job per generation of an Echo. Deletes a Job of an older generation, and creates the new one when it is gone. Creates a
 * Job again if it was deleted before it completed, but not after.
 */
export class EchoReconciler {
  readonly #options: EchoReconcilerOptions;
  readonly #reporter: OutcomeReporter<Echo, ReasonOf<typeof echoReasons>>;

  constructor(options: EchoReconcilerOptions) {
    this.#options = options;
    this.#reporter = new OutcomeReporter({
      kind: Echo,
      reasons: echoReasons,
      events: options.events,
      refused: (echo, refusal) => waitingOutcome(echo, 'JobRefused', serverMessage(refusal)),
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const echo = this.#options.echos.get(key);
    if (echo === undefined) this.#options.deletedJobs.forget(jobKeyOf(key));
    // The garbage collector deletes the Job with its owner.
    if (echo === undefined || echo.metadata.deletionTimestamp !== undefined) return done;
    let outcome: EchoOutcome | undefined;
    const result = await this.#reporter.reconcile(echo, context, async () => {
      outcome = await this.#reconcileJob(echo, context);
      return outcome;
    });
    // The status says now that it has completed.
    if (outcome?.reason === 'Printed') this.#options.deletedJobs.forget(jobKeyOf(key));
    return result;
  }

  async #reconcileJob(echo: Echo, context: ReconcileContext): Promise<EchoOutcome | undefined> {
    const problem = specProblem(Echo, echo);
    if (problem !== undefined) return { reason: 'InvalidSpec', message: problem, status: withoutJob };
    const jobKey = jobKeyOf(keyOf(echo));
    if (echo.status?.completedGeneration === echo.metadata.generation) {
      return printedOutcome(echo.status.jobName ?? jobKey.name);
    }
    const job = this.#options.jobs.get(jobKey);
    return job === undefined ? this.#create(echo, jobKey, context) : this.#reconcileExisting(echo, job, context);
  }

  async #reconcileExisting(echo: Echo, job: Job, context: ReconcileContext): Promise<EchoOutcome | undefined> {
    if (!isControlledBy(job, echo)) {
      const taken = { reason: 'JobNameTaken', advice: 'delete it, or give the Echo another name' } as const;
      const { reason, message } = nameTaken({ kind: Echo, object: echo }, { kind: Job, holder: job }, taken);
      return waitingOutcome(echo, reason, message);
    }
    if (!isOfCurrentGeneration(job, echo)) return this.#deleteOutdatedJob(echo, job, context);
    const pods = [...this.#options.pods.byOwner(job.metadata.uid)];
    return { ...outcomeOf(echo, job, problemAmong(pods)), requeueAfterMs: untilOverdueMs(pods) };
  }

  async #create(echo: Echo, jobKey: ObjectKey, context: ReconcileContext): Promise<EchoOutcome | undefined> {
    const deleted = this.#options.deletedJobs.get(echo, jobKey);
    if (deleted !== undefined) {
      if (jobPhase(deleted) === 'Succeeded') return outcomeOf(echo, deleted);
      // The Job may be gone because the Echo was deleted, which our watch has not shown yet.
      if (!(await isCurrent(context.client, Echo, echo))) return undefined;
    }
    const { applier, jobs: store, pod } = this.#options;
    const applied = await applier.createOnce(Job, echoJob(echo, pod), { client: context.client, store });
    const found = applied.type === 'nameTaken' ? applied.holder : applied.object;
    // After a lost answer it may be an earlier Job, which the store does not have yet.
    if (applied.type !== 'created' || !isOfCurrentGeneration(found, echo)) {
      return this.#reconcileExisting(echo, found, context);
    }
    if (hadJob(echo)) {
      const note = `created Job ${jobKey.name} again: it was deleted before it had printed the message`;
      this.#reporter.recordEvent(echo, { type: 'Normal', reason: 'JobRecreated', note }, context);
    }
    return outcomeOf(echo, found);
  }

  /** The DELETED event of the Job enqueues the key, whose reconcile creates the new Job: the two never run at the same time. */
  async #deleteOutdatedJob(echo: Echo, job: Job, { client }: ReconcileContext): Promise<EchoOutcome | undefined> {
    const { name, uid, deletionTimestamp } = job.metadata;
    if (deletionTimestamp === undefined) {
      if (!(await isCurrent(client, Echo, echo))) return undefined;
      await deleteIfPresent(client, Job, keyOf(job), { uid, propagationPolicy: 'Foreground' });
    }
    return waitingOutcome(
      echo,
      'Replacing',
      `Job ${name} of an earlier spec is being deleted: a new one is created when it is gone`,
    );
  }
}

/**
 * The outcome for an Echo with a Job, which may have been deleted after it completed.
 *
 * @param problem why a pod of the Job does not start.
 */
export function outcomeOf(echo: Echo, job: Job, problem?: string): EchoOutcome {
  const { name } = job.metadata;
  const { startTime = null, completionTime = null } = job.status ?? {};
  const phase = jobPhase(job);
  const status = { phase, jobName: name, startTime, completionTime };
  if (phase === 'Succeeded') {
    const { reason, message } = printedOutcome(name);
    return { reason, message, status: { ...status, completedGeneration: echo.metadata.generation } };
  }
  if (phase === 'Failed') {
    const causes = [failureMessage(job), problem].filter((cause) => cause !== undefined);
    return { reason: 'JobFailed', message: `Job ${name} has failed: ${causes.join('; ')}`, status };
  }
  const message =
    problem === undefined ? `Job ${name} prints the message` : `Job ${name} has not printed the message: ${problem}`;
  return { reason: 'Printing', message, status };
}

/** The outcome for a message that was printed, even if the Job no longer exists. The status keeps its times. */
const printedOutcome = (jobName: string): EchoOutcome => ({
  reason: 'Printed',
  message: `Job ${jobName} has printed the message`,
  status: { phase: 'Succeeded', jobName },
});

const withoutJob = { phase: null, jobName: null, startTime: null, completionTime: null } as const;

/** The outcome for an Echo that has no Job of its current generation. */
const waitingOutcome = (echo: Echo, reason: EchoOutcome['reason'], message: string): EchoOutcome => ({
  reason,
  message,
  status: { ...withoutJob, phase: 'Pending', jobName: jobKeyOf(keyOf(echo)).name },
});

/** Whether a Job of this generation existed according to the status. Decides only whether to record an Event. */
function hadJob(echo: Echo): boolean {
  const reason = currentReady(echo)?.reason;
  return reason === 'Printing' || reason === 'JobFailed';
}
