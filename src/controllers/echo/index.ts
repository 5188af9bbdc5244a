/** Echo: a Job per generation prints the message. */
import { Echo } from '../../api/index.ts';
import { controllerOf, keyOf, type Manager, ownsByName, predicates, watches } from '../../runtime/index.ts';
import { Job, Pod } from '../../runtime/kinds/index.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { affectsPodProblem, podInformer } from '../pods.ts';
import type { PrintPodSettings } from '../print-pod.ts';
import { DeletedJobs, jobKeyOf } from './echo-job.ts';
import { EchoReconciler } from './echo-reconciler.ts';

/** Adds the Echo controller to a manager. */
export function addEchoController(
  manager: Manager,
  options: ControllerSettings & { readonly pod: PrintPodSettings },
): void {
  const { events, pod, workers, resyncEveryMs } = options;
  const scope = scopeOf(options);
  const echos = manager.informer(Echo, scope);
  const jobs = manager.informer(Job, scope);
  const pods = manager.informer(Pod, podInformer(options));
  const deletedJobs = new DeletedJobs();
  const byJob = ownsByName(echos, Job, (echo) => [jobKeyOf(keyOf(echo))], {
    observe: (echo, delta) => deletedJobs.observe(echo, delta),
  });
  const podProblems = watches(
    Pod,
    (pod) => {
      const controller = controllerOf(pod);
      if (controller?.kind !== Job.kind) return [];
      return byJob.ownersOf({ ...keyOf(pod), name: controller.name }).map(keyOf);
    },
    { predicate: affectsPodProblem },
  );
  const reconciler = new EchoReconciler({
    echos: echos.store,
    jobs: jobs.store,
    pods: pods.store,
    deletedJobs,
    events,
    pod,
  });
  manager.controller(Echo, {
    watches: [byJob, podProblems],
    // Not `generationChanged`: the reconcile reads `status.completedGeneration`, and corrects a status that another client changed.
    predicate: predicates.ignoringConditionMessages,
    workers,
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}
