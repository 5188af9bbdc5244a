import { BookStore } from '../../api/index.ts';
import { compareQuantities, controllerReference, type Manifest } from '../../runtime/index.ts';
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

/** What a StatefulSet is made with and never changes. */
export interface Fixed {
  /** How much each claim asks for: a quantity. */
  readonly size: string;
  readonly storageClassName?: string;
  readonly serviceName: string;
  /** What others have made of the template of its claims: a list that is sent must have it. */
  readonly others?: Pick<ClaimTemplate, 'metadata' | 'spec'>;
}

type ClaimTemplate = NonNullable<NonNullable<StatefulSet['spec']>['volumeClaimTemplates']>[number];

/** Of a StatefulSet that is there. */
export function fixedOf({ spec }: StatefulSet): Fixed {
  const { metadata: { labels, annotations } = {}, spec: claim = {} } = spec?.volumeClaimTemplates?.[0] ?? {};
  const { accessModes: _, resources, storageClassName, volumeMode, ...rest } = claim;
  // The server's own word for a volume with files.
  const others = { ...rest, ...(volumeMode !== undefined && volumeMode !== 'Filesystem' && { volumeMode }) };
  const hasOthers = labels !== undefined || annotations !== undefined || Object.keys(others).length > 0;
  return {
    size: resources?.requests?.storage ?? '0',
    ...(storageClassName !== undefined && { storageClassName }),
    serviceName: spec?.serviceName ?? '',
    ...(hasOthers && {
      others: { metadata: { ...(labels && { labels }), ...(annotations && { annotations }) }, spec: others },
    }),
  };
}

/** As the BookStore asks for it. A size is never made less: that of a larger StatefulSet stays. */
export function wantedFixed({ database }: Settings, present: Fixed | undefined): Fixed {
  const { size, storageClassName, serviceName } = database;
  if (present === undefined) {
    return { size, ...(storageClassName !== undefined && { storageClassName }), serviceName };
  }
  const larger = compareQuantities(size, present.size) > 0 ? size : present.size;
  return { ...present, size: larger, serviceName };
}

/** Whether a StatefulSet has to be made anew to be another. */
export const isFixedOtherwise = (wanted: Fixed, present: Fixed): boolean =>
  wanted.size !== present.size || wanted.serviceName !== present.serviceName;

/** The StatefulSet that runs the database. */
export function statefulSetOf(store: BookStore, { database }: Settings, fixed: Fixed): Manifest<StatefulSet> {
  const { container, replicas, port, dataPath } = database;
  return {
    metadata: {
      ...statefulSetKey(store),
      labels: objectLabels(store, 'database'),
      ownerReferences: [controllerReference(BookStore, store)],
    },
    spec: {
      replicas,
      serviceName: fixed.serviceName,
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
      volumeClaimTemplates: claimTemplates(store, fixed),
    },
  };
}

/**
 * The one template of a StatefulSet's claims. The list is atomic, so it has the server's defaults too: without them each
 * restart of the operator would cost an apply that changes nothing.
 */
const claimTemplates = ({ metadata }: BookStore, { size, storageClassName, others }: Fixed) => [
  {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { ...(others?.metadata ?? { labels: { [bookStoreUidLabel]: metadata.uid } }), name: volumeName },
    spec: {
      volumeMode: 'Filesystem',
      ...others?.spec,
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: size } },
      ...(storageClassName !== undefined && { storageClassName }),
    },
    status: { phase: 'Pending' },
  },
];

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
