/** PodSet: keeps a number of identical pods running. */
import { PodSet } from '../../api/index.ts';
import { type Applier, controllerOf, keyOf, type Manager, predicates, watches } from '../../runtime/index.ts';
import { Pod } from '../../runtime/kinds/index.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { podInformer } from '../pods.ts';
import { type DefaultPodSettings, isSelected, podLabels } from './pod.ts';
import { PodSetReconciler } from './pod-set-reconciler.ts';

/** Finds PodSets, and pods, by their namespace and the label `app`. */
const byApp = 'app';

/** Each pod that starts, becomes ready or ends changes the counts: a roll would write the status twice per pod. */
const statusDebounceMs = 1000;

/** Adds the PodSet controller to a manager. */
export function addPodSetController(
  manager: Manager,
  options: ControllerSettings & { readonly applier: Applier; readonly defaultPod: DefaultPodSettings },
): void {
  const { applier, events, defaultPod, workers, resyncEveryMs } = options;
  const sets = manager.informer(PodSet, scopeOf(options));
  const pods = manager.informer(Pod, podInformer(options));
  sets.addIndex(byApp, (set) => [appKey(set, podLabels(set).app)]);
  pods.addIndex(byApp, (pod) => [appKey(pod, pod.metadata.labels?.app)]);
  const reconciler = new PodSetReconciler({
    sets: sets.store,
    pods: pods.store,
    labelled: (set) => pods.store.byIndex(byApp, appKey(set, podLabels(set).app)),
    applier,
    events,
    defaultPod,
  });
  const orphans = watches(Pod, (pod) => {
    if (controllerOf(pod) !== undefined) return [];
    const sameApp = [...sets.store.byIndex(byApp, appKey(pod, pod.metadata.labels?.app))];
    return sameApp.filter((set) => isSelected(set, pod)).map(keyOf);
  });
  manager.controller(PodSet, {
    owns: [Pod],
    watches: [orphans],
    predicate: predicates.ignoringConditionMessages,
    workers,
    resyncEveryMs,
    statusDebounceMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}

const appKey = ({ metadata }: { readonly metadata: { readonly namespace?: string } }, app = ''): string =>
  `${metadata.namespace ?? ''}/${app}`;
