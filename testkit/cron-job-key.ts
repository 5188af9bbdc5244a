import type { ObjectKey } from '@echoperator/runtime';
import { newCronJobName } from '../src/kinds/scheduled-echo/cron-job.ts';

/** The key of the CronJob that the operator creates for a ScheduledEcho. */
export const cronJobKey = <K extends ObjectKey>(echo: K): K => ({ ...echo, name: newCronJobName({ metadata: echo }) });
