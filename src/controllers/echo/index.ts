/** Echo: a Job per generation prints the message. */
import { Echo } from '../../api/index.ts';
import {
  type Applier,
  controllerOf,
  keyOf,
  type Manager,
  predicates,
  watches,
  watchesByName,
} from '../../runtime/index.ts';
import { Job, Pod } from '../../runtime/kinds/index.ts';
import { keepChildrenOf } from '../cached-fields.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { affectsPodProblem, podInformer } from '../pods.ts';
import type { PrintPodSettings } from '../print-pod.ts';
import { DeletedJobs, jobKeyOf } from './echo-job.ts';
import { EchoReconciler } from './echo-reconciler.ts';

/** Adds the Echo controller to a manager. */
export function addEchoController(
  manager: Manager,
  options: ControllerSettings & { readonly applier: Applier; readonly pod: PrintPodSettings },
): void {
  const { applier, events, pod, workers, resyncEveryMs } = options;
  const scope = scopeOf(options);
  const echos = manager.informer(Echo, scope);
  const jobs = manager.informer(Job, { ...scope, transform: keepChildrenOf(Echo) });
  const pods = manager.informer(Pod, podInformer(options));
  const deletedJobs = new DeletedJobs();
  const jobWatch = watchesByName(echos, Job, (echo) => [jobKeyOf(keyOf(echo))], {
    observe: (echo, delta) => deletedJobs.observe(echo, delta),
  });
  const podProblems = watches(
    Pod,
    (pod) => {
      const controller = controllerOf(pod);
      if (controller?.kind !== Job.kind) return [];
      return jobWatch.ownersOf({ ...keyOf(pod), name: controller.name }).map(keyOf);
    },
    { predicate: affectsPodProblem },
  );
  const reconciler = new EchoReconciler({
    echos: echos.store,
    jobs: jobs.store,
    pods: pods.store,
    deletedJobs,
    applier,
    events,
    pod,
  });
  manager.controller(Echo, {
    watches: [jobWatch, podProblems],
    predicate: predicates.ignoringConditionMessages,
    workers,
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}
