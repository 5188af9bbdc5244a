import { BookStore } from '../../api/index.ts';
import { controllerReference, type Manifest } from '../../runtime/index.ts';
import type { Service, StatefulSet } from '../built-in-kinds.ts';
import {
  bookStoreUidLabel,
  databaseServiceKey,
  objectLabels,
  selectorLabels,
  statefulSetKey,
  volumeName,
} from './names.ts';
import { readyWhenListening } from './readiness.ts';
import type { Settings } from './settings.ts';

/**
 * The StatefulSet that runs the database.
 *
 * @param present the one that is there: its claim templates cannot change, so an apply must repeat them. A claim that is
 *   created from an earlier size grows like any other.
 */
export function statefulSetOf(
  store: BookStore,
  { database }: Settings,
  present: StatefulSet | undefined,
): Manifest<StatefulSet> {
  const { container, replicas, port, dataPath, serviceName } = database;
  return {
    metadata: {
      ...statefulSetKey(store),
      labels: objectLabels(store, 'database'),
      ownerReferences: [controllerReference(BookStore, store)],
    },
    spec: {
      replicas,
      serviceName,
      // They know nothing of one another, so none waits for another; and one that cannot start, for its image is wrong,
      // is replaced when that is mended. In order it would be waited for, for ever.
      podManagementPolicy: 'Parallel',
      selector: { matchLabels: selectorLabels(store, 'database') },
      // Claims go with the BookStore or not at all: who deletes a StatefulSet has not asked for its data to go.
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
      template: {
        metadata: { labels: objectLabels(store, 'database') },
        spec: {
          containers: [
            {
              name: 'database',
              ...container,
              ports: [{ name: 'database', containerPort: port }],
              readinessProbe: readyWhenListening(port),
              volumeMounts: [{ name: volumeName, mountPath: dataPath }],
            },
          ],
        },
      },
      volumeClaimTemplates: present?.spec?.volumeClaimTemplates ?? [claimTemplate(store, database)],
    },
  };
}

/** With the API server's defaults: the list is atomic, so without them a restart of the operator would cost an apply. */
const claimTemplate = ({ metadata }: BookStore, { size, storageClassName }: Settings['database']) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: volumeName, labels: { [bookStoreUidLabel]: metadata.uid } },
  spec: {
    volumeMode: 'Filesystem',
    accessModes: ['ReadWriteOnce'],
    resources: { requests: { storage: size } },
    ...(storageClassName !== undefined && { storageClassName }),
  },
  status: { phase: 'Pending' },
});

/** The headless Service under which the app finds the database. */
export function databaseServiceOf(store: BookStore, { database }: Settings): Manifest<Service> {
  const { port } = database;
  return {
    metadata: {
      ...databaseServiceKey(store),
      labels: objectLabels(store, 'database'),
      ownerReferences: [controllerReference(BookStore, store)],
    },
    spec: {
      clusterIP: 'None',
      selector: selectorLabels(store, 'database'),
      ports: [{ name: 'database', protocol: 'TCP', port, targetPort: port }],
    },
  };
}
