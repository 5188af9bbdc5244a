/** ScheduledEcho: a CronJob prints the message on a schedule. */
import { ScheduledEcho } from '../../api/index.ts';
import {
  type Applier,
  controllerOf,
  keyOf,
  type Manager,
  predicates,
  watches,
  watchesByName,
} from '../../runtime/index.ts';
import { CronJob, Pod } from '../../runtime/kinds/index.ts';
import { keepChildrenOf } from '../cached-fields.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { affectsPodProblem, podInformer } from '../pods.ts';
import type { PrintPodSettings } from '../print-pod.ts';
import { cronJobKeyOf } from './cron-job.ts';
import { activeJobs, ScheduledEchoReconciler } from './scheduled-echo-reconciler.ts';

/** Finds a CronJob by the uid of each of its Jobs that has not finished. */
const byActiveJob = 'activeJob';

/** Adds the ScheduledEcho controller to a manager. */
export function addScheduledEchoController(
  manager: Manager,
  options: ControllerSettings & { readonly applier: Applier; readonly pod: PrintPodSettings },
): void {
  const { applier, events, pod, workers, resyncEveryMs } = options;
  const scope = scopeOf(options);
  const echos = manager.informer(ScheduledEcho, scope);
  const cronJobs = manager.informer(CronJob, { ...scope, transform: keepChildrenOf(ScheduledEcho) });
  const pods = manager.informer(Pod, podInformer(options));
  cronJobs.addIndex(byActiveJob, (cronJob) => activeJobs(cronJob).map(({ uid = '' }) => uid));
  const cronJobWatch = watchesByName(echos, CronJob, (echo) => [cronJobKeyOf(keyOf(echo))]);
  const podProblems = watches(
    Pod,
    (pod) => {
      const owners = [...cronJobs.store.byIndex(byActiveJob, controllerOf(pod)?.uid ?? '')];
      return owners.flatMap((cronJob) => cronJobWatch.ownersOf(keyOf(cronJob)).map(keyOf));
    },
    { predicate: affectsPodProblem },
  );
  const reconciler = new ScheduledEchoReconciler({
    echos: echos.store,
    cronJobs: cronJobs.store,
    pods: pods.store,
    applier,
    events,
    pod,
  });
  manager.controller(ScheduledEcho, {
    watches: [cronJobWatch, podProblems],
    predicate: predicates.ignoringConditionMessages,
    workers,
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}
