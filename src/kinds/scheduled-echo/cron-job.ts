import { type Child, hashedChildName } from '@echoperator/runtime/controller';
import type { CronJob } from '@echoperator/runtime/kinds';
import { type PrintPodSettings, podLabels, printPod } from '../shared/print-pod.ts';
import type { ScheduledEcho } from './kind.ts';

/** The CronJob controller appends eleven characters to name its Jobs, and these names are labels too. */
const maxCronJobNameLength = 52;

/**
 * The name of a new CronJob. Not the ScheduledEcho's: the CronJob controller takes each Job for its own whose
 * controller has the CronJob's name, whatever its kind (k8s.io/kubernetes/pkg/controller/cronjob,
 * getJobsToBeReconciled). It would delete the Job of an Echo of this name.
 */
export const newCronJobName = ({ metadata }: { readonly metadata: Pick<ScheduledEcho['metadata'], 'name'> }): string =>
  hashedChildName(metadata.name, maxCronJobNameLength);

/**
 * The name of a ScheduledEcho's CronJob. One with the ScheduledEcho's name, as the original and earlier versions made
 * it, keeps its name and its history.
 *
 * @param cronJobs that the ScheduledEcho controls
 */
export const cronJobNameOf = (echo: ScheduledEcho, cronJobs: readonly CronJob[]): string =>
  cronJobs.some(({ metadata }) => metadata.name === echo.metadata.name) ? echo.metadata.name : newCronJobName(echo);

/** The CronJob of this name that prints a ScheduledEcho's message. */
export function cronJobOf(echo: ScheduledEcho, name: string, settings: PrintPodSettings): Child<CronJob> {
  const { schedule, timeZone, suspend = false } = echo.spec;
  return {
    metadata: { name, labels: podLabels },
    spec: {
      schedule,
      ...(timeZone !== undefined && { timeZone }),
      suspend,
      concurrencyPolicy: 'Forbid',
      jobTemplate: { metadata: { labels: podLabels }, spec: { template: printPod(echo.spec, settings) } },
    },
  };
}
