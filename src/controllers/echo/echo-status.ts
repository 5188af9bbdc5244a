import type { Echo } from '../../api/index.ts';
import {
  type DesiredCondition,
  type DesiredStatus,
  keyOf,
  statusPatch as patchOf,
  setCondition,
} from '../../runtime/index.ts';
import type { Job } from '../built-in-kinds.ts';
import { failureMessage, jobKeyOf, jobPhase } from './echo-job.ts';

type EchoStatus = NonNullable<Echo['status']>;

/** Why `Ready` is what it is: its reasons, each with its status. */
export const readyByReason = {
  Printed: 'True',
  Printing: 'False',
  Replacing: 'False',
  JobFailed: 'False',
  JobNameTaken: 'False',
  JobRefused: 'False',
  InvalidSpec: 'False',
} as const;

export type Reason = keyof typeof readyByReason;

/** What a reconcile has found out about an Echo. */
export interface Finding {
  readonly reason: Reason;
  readonly message: string;
  /** Fields of the status beside the conditions; those left out are removed. */
  readonly fields: Pick<EchoStatus, 'phase' | 'jobName' | 'startTime' | 'completionTime'>;
  /** Set when this generation's message has been printed. */
  readonly completedGeneration?: number;
}

/** The finding for an Echo whose Job is there, or was there and has finished. */
export function findingOf(echo: Echo, job: Job): Finding {
  const name = job.metadata.name;
  const phase = jobPhase(job);
  const { startTime, completionTime } = job.status ?? {};
  const fields = {
    phase,
    jobName: name,
    ...(startTime && { startTime }),
    ...(completionTime && { completionTime }),
  };
  switch (phase) {
    case 'Succeeded':
      return {
        reason: 'Printed',
        message: `Job ${name} has printed the message`,
        fields,
        completedGeneration: echo.metadata.generation,
      };
    case 'Failed':
      return { reason: 'JobFailed', message: `Job ${name} has failed: ${failureMessage(job)}`, fields };
    default:
      return { reason: 'Printing', message: `Job ${name} prints the message`, fields };
  }
}

/** The finding for an Echo whose status says that its message was printed, whatever has become of the Job since. */
export function printedFinding(echo: Echo): Finding {
  const { jobName = jobKeyOf(keyOf(echo)).name, startTime, completionTime } = echo.status ?? {};
  return {
    reason: 'Printed',
    message: `Job ${jobName} has printed the message`,
    fields: { phase: 'Succeeded', jobName, ...(startTime && { startTime }), ...(completionTime && { completionTime }) },
    completedGeneration: echo.metadata.generation,
  };
}

/** The finding where no Job of this generation exists yet. */
export function waitingFinding(echo: Echo, reason: Reason, message: string): Finding {
  return { reason, message, fields: { phase: 'Pending', jobName: jobKeyOf(keyOf(echo)).name } };
}

/** What the Echo's status is to say. Fields that no longer hold are null, to be removed; others' conditions stay. */
export function desiredStatus(echo: Echo, finding: Finding, now: Date): DesiredStatus<EchoStatus> {
  const { generation } = echo.metadata;
  const ready: DesiredCondition = {
    type: 'Ready',
    status: readyByReason[finding.reason],
    reason: finding.reason,
    message: finding.message,
    observedGeneration: generation,
  };
  return {
    phase: null,
    jobName: null,
    startTime: null,
    completionTime: null,
    ...finding.fields,
    ...(finding.completedGeneration !== undefined && { completedGeneration: finding.completedGeneration }),
    observedGeneration: generation,
    conditions: setCondition(echo.status?.conditions, ready, now),
  };
}

/** The merge patch that makes the Echo's status say what was found, or undefined if it says so already. */
export function statusPatch(echo: Echo, finding: Finding, now: Date): object | undefined {
  return patchOf(echo.status, desiredStatus(echo, finding, now));
}

/** Whether a person should look at it. */
export const isWarning = (reason: Reason): boolean => !['Printed', 'Printing', 'Replacing'].includes(reason);
