import type { BookStore } from '../../api/index.ts';
import { keyOf, keyString, type ObjectKey } from '../../runtime/index.ts';
import { childName, dotlessChildName } from '../child-name.ts';
import { settingsOf } from './settings.ts';
import { problemOf } from './spec-problem.ts';

/** A StatefulSet's name and a revision's hash make a label. */
const maxStatefulSetNameLength = 52;
/** Of pods the name is a host name too, as far as it fits. */
const maxDeploymentNameLength = 63;
const maxLabelLength = 63;

/** The volume, in the StatefulSet's template of claims and in the pod. */
export const volumeName = 'data';

/**
 * On each claim that a BookStore's StatefulSet creates: the BookStore's uid. `reclaimPolicy: Delete` deletes only claims
 * with this label, so a claim that was created otherwise is never lost.
 */
export const bookStoreUidLabel = 'blog.velotio.com/book-store-uid';

type Component = 'app' | 'database';

const inNamespace = ({ metadata }: BookStore, name: string): ObjectKey => ({ ...keyOf({ metadata }), name });

/** The key of the app's Deployment. */
export const deploymentKey = (store: BookStore): ObjectKey =>
  inNamespace(store, `${dotlessChildName(store.metadata.name, maxDeploymentNameLength - '-app'.length)}-app`);

/** The key of the database's StatefulSet. */
export const statefulSetKey = (store: BookStore): ObjectKey =>
  inNamespace(store, `${dotlessChildName(store.metadata.name, maxStatefulSetNameLength - '-db'.length)}-db`);

/** The key of the app's Service, which its users choose. */
export const appServiceKey = (store: BookStore): ObjectKey => inNamespace(store, settingsOf(store).app.serviceName);

/** The key of the database's Service, which the app's image dials. */
export const databaseServiceKey = (store: BookStore): ObjectKey =>
  inNamespace(store, settingsOf(store).database.serviceName);

/** Every name that a BookStore claims for itself, with the plural of its kind: `services/default/bookstore-svc`. */
export function claimedNames(store: BookStore): readonly string[] {
  const hasServices = problemOf(store) === undefined;
  return [
    ['deployments', deploymentKey(store)] as const,
    ['statefulsets', statefulSetKey(store)] as const,
    ...(hasServices ? [['services', appServiceKey(store)] as const] : []),
    ...(hasServices ? [['services', databaseServiceKey(store)] as const] : []),
  ].map(([plural, key]) => `${plural}/${keyString(key)}`);
}

/** What the pods of one part of a BookStore are found by. */
export const selectorLabels = (store: BookStore, component: Component): Readonly<Record<string, string>> => ({
  'app.kubernetes.io/name': 'bookstore',
  'app.kubernetes.io/instance': childName(store.metadata.name, maxLabelLength),
  'app.kubernetes.io/component': component,
});

/** What every object of one part of a BookStore carries. */
export const objectLabels = (store: BookStore, component: Component): Readonly<Record<string, string>> => ({
  ...selectorLabels(store, component),
  'app.kubernetes.io/managed-by': 'echoperator',
});
