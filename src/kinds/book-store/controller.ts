/**
 * BookStore: an app and a database whose volumes can grow.
 *
 * - `desired.ts`: the spec with its defaults, and the names and labels of the children.
 * - `app.ts`: Deployment and Service of the app. `database.ts`: StatefulSet and Service of the database.
 * - `claims.ts`: sets the requests of claims that must grow, and reads the progress of the growth.
 * - `restart.ts`: restarts a pod whose file system grows only when the volume is mounted.
 * - `volume-outcome.ts`: the condition `VolumeResizing`.
 * - `reclaim.ts`: deletes or keeps the claims when the BookStore is deleted.
 * - `status.ts`: the reasons, and the outcome of a reconcile.
 */

import { defineController, type KubeObject, keyOf, keyString, predicates } from '@echoperator/runtime';
import { isRefusal } from '@echoperator/runtime/client';
import { allow, refusedOutcome } from '@echoperator/runtime/controller';
import { Deployment, Event, PersistentVolumeClaim, Pod, Service, StatefulSet } from '@echoperator/runtime/kinds';
import type { MissingPodsMemory } from '../shared/missing-pods.ts';
import type { PodDefaults } from '../shared/pod-defaults.ts';
import { affectsPodProblem, affectsPodReadiness, untilOverdueMs } from '../shared/pods.ts';
import { reconcileApp } from './app.ts';
import { claimsOfDatabase, statefulSetOfClaim } from './claims.ts';
import { minOf, reconcileDatabase } from './database.ts';
import { type Component, selectorLabels, specWithDefaultsOf, statefulSetKey } from './desired.ts';
import { BookStore, bookStoreFinalizer } from './kind.ts';
import { bookStoreReasons } from './reasons.ts';
import { deleteData, deletesClaims } from './reclaim.ts';
import { affectsRestart } from './restart.ts';
import { outcomeOf, volumeCondition } from './status.ts';
import { volumesNotChecked } from './volume-outcome.ts';

const components: readonly Component[] = ['app', 'database'];

/**
 * Reconciles the app and the database of a BookStore with its spec.
 *
 * @param podDefaults the defaults of all pods. The spec can replace their security contexts.
 */
export const bookStoreController = (podDefaults: PodDefaults) =>
  defineController(BookStore, {
    reasons: bookStoreReasons,
    memory: (): MissingPodsMemory => ({}),
    owns: [Deployment, { kind: StatefulSet, deletes: true }, { kind: Service, deletes: true }],
    // The name matters even while the operator does not apply the StatefulSet, because a claim belongs to somebody
    // else.
    refersTo: [{ kind: StatefulSet, keys: (bookStore) => [statefulSetKey(bookStore)] }],
    indexes: {
      claimsByStatefulSet: {
        kind: PersistentVolumeClaim,
        values: (claim) => {
          const statefulSet = statefulSetOfClaim(claim);
          return statefulSet === undefined ? [] : [keyString(statefulSet)];
        },
      },
      bookStoresByStatefulSet: { kind: BookStore, values: (bookStore) => [keyString(statefulSetKey(bookStore))] },
      podsByLabels: { kind: Pod, values: (pod) => [labelsKey(pod, pod.metadata.labels)] },
      bookStoresByLabels: {
        kind: BookStore,
        values: (bookStore) =>
          components.map((component) => labelsKey(bookStore, selectorLabels(bookStore, component))),
      },
    },
    watches: [
      {
        kind: PersistentVolumeClaim,
        keys: (claim, { find }) => {
          const statefulSet = statefulSetOfClaim(claim);
          return statefulSet === undefined ? [] : find('bookStoresByStatefulSet', keyString(statefulSet)).map(keyOf);
        },
      },
      {
        kind: Pod,
        keys: (pod, { find }) => find('bookStoresByLabels', labelsKey(pod, pod.metadata.labels)).map(keyOf),
        // A restart waits for the readiness of pods, and the status of the StatefulSet may reach the cache before the
        // pod does.
        predicate: predicates.or(affectsPodProblem, affectsPodReadiness, affectsRestart),
      },
    ],
    // Claims are read before their deletion; a pod is deleted to restart it; Events say why a StatefulSet has no pod.
    permissions: [
      allow(['get', 'patch', 'delete'], PersistentVolumeClaim),
      allow(['get', 'delete'], Pod),
      allow(['list'], Event),
    ],
    reconcile: async (bookStore, context) => {
      const { find, owned } = context;
      const spec = specWithDefaultsOf(bookStore);
      const named = find('claimsByStatefulSet', keyString(statefulSetKey(bookStore)));
      const allClaims = claimsOfDatabase(named, bookStore, spec.database.replicas);
      const database = await reconcileDatabase(bookStore, spec, { context, podDefaults, allClaims });
      const appPods = find('podsByLabels', labelsKey(bookStore, selectorLabels(bookStore, 'app')));
      const app = await reconcileApp(bookStore, spec, database.serviceTaken, { context, podDefaults, pods: appPods });
      const outcome = outcomeOf(bookStore, spec, app, database);
      const databasePods = database.statefulSet === undefined ? [] : owned(Pod, database.statefulSet);
      const overdueMs = untilOverdueMs([...appPods, ...databasePods]);
      return { ...outcome, requeueAfterMs: minOf(outcome.requeueAfterMs, overdueMs) };
    },
    failed: (error, bookStore) => {
      if (!isRefusal(error)) return undefined;
      const outcome = refusedOutcome(error);
      return { ...outcome, conditions: [volumeCondition(volumesNotChecked(bookStore, outcome))] };
    },
    finalizer: {
      name: bookStoreFinalizer,
      // The policy at the time of the deletion decides.
      isNeeded: deletesClaims,
      cleanUp: deleteData,
    },
  });

/** The index key of a component: the namespace and the labels that all of its pods have. */
const labelsKey = ({ metadata }: KubeObject, labels: Readonly<Record<string, string>> = {}): string =>
  [
    metadata.namespace,
    labels['app.kubernetes.io/name'],
    labels['app.kubernetes.io/instance'],
    labels['app.kubernetes.io/component'],
  ].join('/');
