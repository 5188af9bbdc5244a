/** BookStore: an app, and a database whose volumes can grow. */
import { BookStore } from '../../api/index.ts';
import {
  type Applier,
  controllerOf,
  generationChanged,
  type Kind,
  type KubeObject,
  keyOf,
  keyString,
  type Manager,
  type Watch,
  watches,
} from '../../runtime/index.ts';
import { Deployment, PersistentVolumeClaim, Service, StatefulSet } from '../built-in-kinds.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { BookStoreReconciler } from './book-store-reconciler.ts';
import { statefulSetOfClaim } from './claims.ts';
import { claimedNames, statefulSetKey } from './names.ts';

/** Finds BookStores by a name that each claims for itself, {@link claimedNames}. */
const byClaimedName = 'claimedName';

/** Finds claims by the StatefulSet that they belong to by their names. */
const byStatefulSet = 'statefulSet';

/** Adds the BookStore controller to a manager. */
export function addBookStoreController(
  manager: Manager,
  options: ControllerSettings & { readonly applier: Applier },
): void {
  const { applier, events, workers, resyncEveryMs } = options;
  const scope = scopeOf(options);
  const stores = manager.informer(BookStore, scope);
  const deployments = manager.informer(Deployment, { ...scope, transform: withoutOthersDetails });
  const statefulSets = manager.informer(StatefulSet, { ...scope, transform: withoutOthersDetails });
  const services = manager.informer(Service, { ...scope, transform: withoutOthersDetails });
  const claims = manager.informer(PersistentVolumeClaim, scope);
  stores.addIndex(byClaimedName, claimedNames);
  claims.addIndex(byStatefulSet, (claim) => {
    const statefulSet = statefulSetOfClaim(claim);
    return statefulSet === undefined ? [] : [statefulSet];
  });
  const reconciler = new BookStoreReconciler({
    stores: stores.store,
    deployments: deployments.store,
    statefulSets: statefulSets.store,
    services: services.store,
    claimsOf: (store) => claims.store.byIndex(byStatefulSet, keyString(statefulSetKey(store))),
    applier,
    events,
  });
  const whoClaims = (name: string) => [...stores.store.byIndex(byClaimedName, name)].map(keyOf);
  // By name and not by owner: one that is not ours but has the name matters too, when it comes and when it goes.
  const named = <T extends KubeObject>(kind: Kind<T>): Watch =>
    watches(kind, ({ object }) => whoClaims(`${kind.plural}/${keyString(keyOf(object))}`));
  manager.controller(BookStore, {
    watches: [
      named(Deployment),
      named(StatefulSet),
      named(Service),
      watches(PersistentVolumeClaim, ({ object }) => whoClaims(`statefulsets/${statefulSetOfClaim(object) ?? ''}`)),
    ],
    // Not its status: that is our own word, and after a refusal it would have us ask again at once.
    predicate: generationChanged,
    workers,
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}

/** Of an object that no BookStore has made, and there may be very many, nothing matters but whose it is. */
function withoutOthersDetails<T extends KubeObject>(object: T): T {
  if (controllerOf(object)?.kind === BookStore.kind) return object;
  const { annotations: _, ...metadata } = object.metadata;
  const rest: KubeObject = { metadata };
  // Of these kinds all but the metadata may be absent.
  return rest as T;
}
