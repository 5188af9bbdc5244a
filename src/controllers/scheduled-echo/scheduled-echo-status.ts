import type { ScheduledEcho } from '../../api/index.ts';
import { keyOf, setCondition } from '../../runtime/index.ts';
import type { CronJob } from '../built-in-kinds.ts';
import type { ReadyReport } from '../report-ready.ts';
import { cronJobKeyOf } from './cron-job.ts';

/** Why `Ready` is what it is: its reasons, each with its status, and whether a person should look at it. */
export const reasons = {
  Scheduled: { ready: 'True', isWarning: false },
  Suspended: { ready: 'True', isWarning: false },
  Replacing: { ready: 'False', isWarning: false },
  InvalidSchedule: { ready: 'False', isWarning: true },
  CronJobNameTaken: { ready: 'False', isWarning: true },
  CronJobRefused: { ready: 'False', isWarning: true },
  InvalidSpec: { ready: 'False', isWarning: true },
} as const;

export type Reason = keyof typeof reasons;

/** What a reconcile has found out about a ScheduledEcho. */
export interface Finding {
  readonly reason: Reason;
  readonly message: string;
  /** As far as there is one that is ours. */
  readonly cronJob?: CronJob | undefined;
}

/** What is to be reported. What no longer holds is null, to be removed; others' conditions stay. */
export function readyReport(
  echo: ScheduledEcho,
  { reason, message, cronJob }: Finding,
  now: Date,
): ReadyReport<ScheduledEcho> {
  const { ready, isWarning } = reasons[reason];
  const { generation } = echo.metadata;
  const { active = [], lastScheduleTime, lastSuccessfulTime } = cronJob?.status ?? {};
  const jobs = active.map(({ name = '' }) => name).sort();
  return {
    reason,
    message,
    isWarning,
    status: {
      cronJobName: cronJobKeyOf(keyOf(echo)).name,
      active: jobs.length === 0 ? null : jobs,
      lastScheduleTime: lastScheduleTime ?? null,
      lastSuccessfulTime: lastSuccessfulTime ?? null,
      observedGeneration: generation,
      conditions: setCondition(
        echo.status?.conditions,
        { type: 'Ready', status: ready, reason, message, observedGeneration: generation },
        now,
      ),
    },
  };
}
