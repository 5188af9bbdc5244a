/** Echo: one Job per generation prints the message. */
import { Echo } from '../../api/index.ts';
import { keyOf, keyString, type Manager, watches } from '../../runtime/index.ts';
import { Job } from '../built-in-kinds.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { isMoreThanWords } from '../more-than-words.ts';
import { DeletedJobs } from './deleted-jobs.ts';
import { jobKeyOf } from './echo-job.ts';
import { EchoReconciler } from './echo-reconciler.ts';

/** Finds an Echo by the key of its Job. */
const byJob = 'job';

/** Adds the Echo controller to a manager. */
export function addEchoController(manager: Manager, options: ControllerSettings & { readonly image: string }): void {
  const scope = scopeOf(options);
  const echos = manager.informer(Echo, scope);
  const jobs = manager.informer(Job, scope);
  const deletedJobs = new DeletedJobs();
  echos.addIndex(byJob, (echo) => [keyString(jobKeyOf(keyOf(echo)))]);
  const reconciler = new EchoReconciler({
    echos: echos.store,
    jobs: jobs.store,
    deletedJobs,
    events: options.events,
    image: options.image,
  });
  manager.controller(Echo, {
    // By name and not by owner: a Job that is not ours but has the name matters too, when it comes and when it goes.
    watches: [
      watches(Job, (delta) => {
        const named = [...echos.store.byIndex(byJob, keyString(keyOf(delta.object)))];
        for (const echo of named) deletedJobs.observe(echo, delta);
        return named.map(keyOf);
      }),
    ],
    predicate: isMoreThanWords,
    workers: options.workers,
    resyncEveryMs: options.resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}
