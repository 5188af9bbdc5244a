/** ScheduledEcho: a CronJob prints the message by a schedule. */
import { ScheduledEcho } from '../../api/index.ts';
import { type Applier, keyOf, keyString, type Manager, watches } from '../../runtime/index.ts';
import { CronJob } from '../built-in-kinds.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { isMoreThanWords } from '../more-than-words.ts';
import { cronJobKeyOf } from './cron-job.ts';
import { ScheduledEchoReconciler } from './scheduled-echo-reconciler.ts';

/** Finds a ScheduledEcho by the key of its CronJob. */
const byCronJob = 'cronJob';

/** Adds the ScheduledEcho controller to a manager. */
export function addScheduledEchoController(
  manager: Manager,
  options: ControllerSettings & { readonly applier: Applier; readonly image: string },
): void {
  const scope = scopeOf(options);
  const echos = manager.informer(ScheduledEcho, scope);
  const cronJobs = manager.informer(CronJob, scope);
  echos.addIndex(byCronJob, (echo) => [keyString(cronJobKeyOf(keyOf(echo)))]);
  const { applier, events, image, workers, resyncEveryMs } = options;
  const reconciler = new ScheduledEchoReconciler({
    echos: echos.store,
    cronJobs: cronJobs.store,
    applier,
    events,
    image,
  });
  manager.controller(ScheduledEcho, {
    // By name and not by owner: one that is not ours but has the name matters too, when it comes and when it goes.
    watches: [
      watches(CronJob, ({ object }) => [...echos.store.byIndex(byCronJob, keyString(keyOf(object)))].map(keyOf)),
    ],
    predicate: isMoreThanWords,
    workers,
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}
