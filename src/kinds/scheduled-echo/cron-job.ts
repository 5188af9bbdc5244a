import { type Child, childName } from '../../runtime/controller/index.ts';
import type { CronJob } from '../../runtime/kinds/index.ts';
import { type PrintPodSettings, podLabels, printPod } from '../shared/print-pod.ts';
import type { ScheduledEcho } from './kind.ts';

/** The CronJob controller appends eleven characters to name its Jobs, and these names are labels too. */
const maxCronJobNameLength = 52;

/** The name of a ScheduledEcho's CronJob. */
export const cronJobNameOf = ({ metadata }: ScheduledEcho): string => childName(metadata.name, maxCronJobNameLength);

/** The CronJob that prints a ScheduledEcho's message. */
export function cronJobOf(echo: ScheduledEcho, settings: PrintPodSettings): Child<CronJob> {
  const { message, schedule, timeZone, suspend = false } = echo.spec;
  return {
    metadata: { name: cronJobNameOf(echo), labels: podLabels },
    spec: {
      schedule,
      ...(timeZone !== undefined && { timeZone }),
      suspend,
      concurrencyPolicy: 'Forbid',
      jobTemplate: { metadata: { labels: podLabels }, spec: { template: printPod(message, settings) } },
    },
  };
}
