import { newCronJobName } from '../src/kinds/scheduled-echo/cron-job.ts';
import type { ObjectKey } from '../src/runtime/index.ts';

/** The key of the CronJob that the operator creates for a ScheduledEcho. */
export const cronJobKey = <K extends ObjectKey>(echo: K): K => ({ ...echo, name: newCronJobName({ metadata: echo }) });
