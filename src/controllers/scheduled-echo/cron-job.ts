import { ScheduledEcho } from '../../api/index.ts';
import { childName } from '../../runtime/controller/index.ts';
import { controllerReference, keyOf, type Manifest, type ObjectKey } from '../../runtime/index.ts';
import type { CronJob } from '../../runtime/kinds/index.ts';
import { type PrintPodSettings, podLabels, printPod } from '../print-pod.ts';

/** The CronJob controller appends eleven characters to name its Jobs, and these names are labels too. */
const maxCronJobNameLength = 52;

/** The key of a ScheduledEcho's CronJob, from the ScheduledEcho's key. */
export const cronJobKeyOf = (echo: ObjectKey): ObjectKey => ({
  ...echo,
  name: childName(echo.name, maxCronJobNameLength),
});

/** The CronJob that prints a ScheduledEcho's message. */
export function cronJobOf(echo: ScheduledEcho, settings: PrintPodSettings): Manifest<CronJob> {
  const { message, schedule, timeZone, suspend = false } = echo.spec;
  return {
    metadata: {
      ...cronJobKeyOf(keyOf(echo)),
      labels: podLabels,
      ownerReferences: [controllerReference(ScheduledEcho, echo)],
    },
    spec: {
      schedule,
      ...(timeZone !== undefined && { timeZone }),
      suspend,
      concurrencyPolicy: 'Forbid',
      jobTemplate: { metadata: { labels: podLabels }, spec: { template: printPod(message, settings) } },
    },
  };
}
