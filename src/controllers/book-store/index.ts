/**
 * BookStore: an app and a database whose volumes can grow. Start reading in `book-store-reconciler.ts`.
 *
 * - `book-store-reconciler.ts`: one reconcile: the database, the app and the outcome of both.
 * - `desired.ts`: the spec with its defaults, and the names and labels of the children.
 * - `app.ts`: Deployment and Service of the app. `database.ts`: StatefulSet and Service of the database.
 * - `claims.ts`: sets the requests of claims that must grow, and reads the progress of the growth.
 * - `restart.ts`: restarts a pod whose file system grows only when the volume is mounted.
 * - `volume-outcome.ts`: the condition `VolumeResizing`.
 * - `reclaim.ts`: deletes or keeps the claims when the BookStore is deleted.
 * - `status.ts`: the reasons, and the outcome of a reconcile.
 * - `permissions.ts`: what the operator may do for this kind.
 */
import { BookStore } from '../../api/index.ts';
import {
  type Applier,
  type KubeObject,
  keyOf,
  keyString,
  type Manager,
  predicates,
  watches,
  watchesByName,
} from '../../runtime/index.ts';
import { Deployment, PersistentVolumeClaim, Pod, Service, StatefulSet } from '../../runtime/kinds/index.ts';
import { keepChildrenOf } from '../cached-fields.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import type { PodDefaults } from '../pod-defaults.ts';
import { affectsPodProblem, affectsPodReadiness, podInformer } from '../pods.ts';
import { BookStoreReconciler } from './book-store-reconciler.ts';
import { keepReadFields, statefulSetOfClaim } from './claims.ts';
import { type Component, deploymentKey, selectorLabels, serviceKeys, statefulSetKey } from './desired.ts';
import { affectsRestart } from './restart.ts';

/** Finds claims by the key of the StatefulSet whose pods use them. */
const byStatefulSet = 'statefulSet';

/** Finds BookStores, and pods, by the labels of a component: see {@link labelsKey}. */
const byLabels = 'labels';

const components: readonly Component[] = ['app', 'database'];

/** Adds the BookStore controller to a manager. */
export function addBookStoreController(
  manager: Manager,
  options: ControllerSettings & { readonly applier: Applier; readonly podDefaults: PodDefaults },
): void {
  const { applier, events, podDefaults, workers, resyncEveryMs } = options;
  const scope = scopeOf(options);
  const bookStores = manager.informer(BookStore, scope);
  const deployments = manager.informer(Deployment, { ...scope, transform: keepChildrenOf(BookStore) });
  const statefulSets = manager.informer(StatefulSet, { ...scope, transform: keepChildrenOf(BookStore) });
  const services = manager.informer(Service, { ...scope, transform: keepChildrenOf(BookStore) });
  const claims = manager.informer(PersistentVolumeClaim, { ...scope, transform: keepReadFields });
  claims.addIndex(byStatefulSet, (claim) => {
    const statefulSet = statefulSetOfClaim(claim);
    return statefulSet === undefined ? [] : [keyString(statefulSet)];
  });
  const pods = manager.informer(Pod, podInformer(options));
  bookStores.addIndex(byLabels, (bookStore) =>
    components.map((component) => labelsKey(bookStore, selectorLabels(bookStore, component))),
  );
  pods.addIndex(byLabels, (pod) => [labelsKey(pod, pod.metadata.labels)]);
  const reconciler = new BookStoreReconciler({
    bookStores: bookStores.store,
    deployments: deployments.store,
    statefulSets: statefulSets.store,
    services: services.store,
    pods: pods.store,
    appPods: (bookStore) => pods.store.byIndex(byLabels, labelsKey(bookStore, selectorLabels(bookStore, 'app'))),
    claimsOf: (bookStore) => claims.store.byIndex(byStatefulSet, keyString(statefulSetKey(bookStore))),
    podDefaults,
    applier,
    events,
  });
  const statefulSetWatch = watchesByName(bookStores, StatefulSet, (bookStore) => [statefulSetKey(bookStore)]);
  manager.controller(BookStore, {
    watches: [
      watchesByName(bookStores, Deployment, (bookStore) => [deploymentKey(bookStore)]),
      statefulSetWatch,
      watchesByName(bookStores, Service, serviceKeys),
      watches(PersistentVolumeClaim, (claim) => {
        const statefulSet = statefulSetOfClaim(claim);
        return statefulSet === undefined ? [] : statefulSetWatch.ownersOf(statefulSet).map(keyOf);
      }),
      watches(
        Pod,
        (pod) => [...bookStores.store.byIndex(byLabels, labelsKey(pod, pod.metadata.labels))].map(keyOf),
        // A restart waits for the readiness of pods, and the status of the StatefulSet may reach the cache before the pod does.
        { predicate: predicates.or(affectsPodProblem, affectsPodReadiness, affectsRestart) },
      ),
    ],
    predicate: predicates.ignoringConditionMessages,
    workers,
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}

/** The index key of a component: the namespace and the labels that all of its pods have. */
const labelsKey = ({ metadata }: KubeObject, labels: Readonly<Record<string, string>> = {}): string =>
  [
    metadata.namespace,
    labels['app.kubernetes.io/name'],
    labels['app.kubernetes.io/instance'],
    labels['app.kubernetes.io/component'],
  ].join('/');
