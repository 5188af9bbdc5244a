import { BookStore } from '../../api/index.ts';
import { type ApiError, isRefusal } from '../../runtime/client/index.ts';
import {
  type Applied,
  type Applier,
  controllerReference,
  type EventRecorder,
  isControlledBy,
  type Manifest,
  type ReadonlyStore,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, type Pod, Service, StatefulSet } from '../../runtime/kinds/index.ts';
import { beingDeleted } from '../name-taken.ts';
import type { PodDefaults } from '../pod-defaults.ts';
import { problemAmong } from '../pods.ts';
import {
  bookStoreUidLabel,
  databaseServiceKey,
  objectLabels,
  podSpecOf,
  readyWhenListening,
  type Settings,
  selectorLabels,
  statefulSetKey,
  volumeName,
} from './desired.ts';
import { type DatabaseResult, nameTakenOutcome, type PartOutcome, refused, rolloutOf } from './status.ts';
import { growClaims, growthOf, inUse, isForeign, noVolumeGrowing, restartPending, volumeOutcome } from './volumes.ts';

/** Options of {@link reconcileDatabase}. */
export interface DatabaseOptions extends Pick<ReconcileContext, 'client' | 'log'> {
  readonly statefulSets: ReadonlyStore<StatefulSet>;
  readonly services: ReadonlyStore<Service>;
  readonly pods: Pick<ReadonlyStore<Pod>, 'byOwner'>;
  readonly podDefaults: PodDefaults;
  /** The claims that the pods use or will use, in the order of the pods, whoever created them. */
  readonly claims: readonly PersistentVolumeClaim[];
  readonly applier: Applier;
  readonly events: EventRecorder;
}

/** The outcome of the Service. Empty if the Service is as the spec asks. */
interface ServiceResult {
  readonly database?: PartOutcome;
  /** Set if the Service does not belong to this BookStore: the app would connect to another database. */
  readonly foreignDatabase?: PartOutcome;
  readonly error?: ApiError;
}

/**
 * Applies the headless Service and the StatefulSet of the database, and grows its volumes.
 *
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function reconcileDatabase(
  bookStore: BookStore,
  settings: Settings,
  options: DatabaseOptions,
): Promise<DatabaseResult & Pick<ServiceResult, 'foreignDatabase'>> {
  const service = await applyService(bookStore, settings, options);
  const present = options.statefulSets.get(statefulSetKey(bookStore));
  const own = present !== undefined && isControlledBy(present, bookStore) ? present : undefined;
  // Reconcile an existing StatefulSet even if the Service belongs to another owner.
  if (service.foreignDatabase !== undefined && own === undefined) {
    const { foreignDatabase } = service;
    return {
      database: foreignDatabase,
      volume: noVolumeGrowing,
      claims: inUse(options.claims, settings),
      foreignDatabase,
    };
  }
  try {
    return { ...(await reconcileStatefulSet(bookStore, settings, present, options)), ...service };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const claims = inUse(options.claims, settings);
    const volume = observedVolume(claims, settings);
    return { database: refused(error), volume, statefulSet: own, claims, error, ...service };
  }
}

async function applyService(
  bookStore: BookStore,
  settings: Settings,
  { applier, services, client }: DatabaseOptions,
): Promise<ServiceResult> {
  try {
    const applied = await applier.apply(Service, databaseServiceOf(bookStore, settings), { client, store: services });
    if (applied.type === 'terminating') return { database: beingDeleted(Service, applied.object) };
    if (applied.type !== 'nameTaken') return {};
    const advice =
      'delete it, or create this BookStore again with another bookDB.serviceName, and configure the app to connect to that';
    const foreignDatabase = nameTakenOutcome(bookStore, Service, applied.holder, advice);
    return { database: foreignDatabase, foreignDatabase };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { database: refused(error), error };
  }
}

async function reconcileStatefulSet(
  bookStore: BookStore,
  settings: Settings,
  present: StatefulSet | undefined,
  options: DatabaseOptions,
): Promise<DatabaseResult> {
  const all = options.claims;
  const claims = inUse(all, settings);
  const { name } = statefulSetKey(bookStore);
  const foreign = foreignClaim(bookStore, claims, name);
  if (present === undefined) {
    if (foreign !== undefined) return { database: foreign, volume: noVolumeGrowing, claims };
    const created = await applyStatefulSet(bookStore, settings, undefined, options);
    return appliedResult(bookStore, created, observedVolume(claims, settings), claims, options);
  }
  if (!isControlledBy(present, bookStore)) {
    return { database: statefulSetNameTaken(bookStore, present), volume: noVolumeGrowing, claims };
  }
  if (present.metadata.deletionTimestamp !== undefined) {
    return { database: beingDeleted(StatefulSet, present), volume: observedVolume(claims, settings), claims };
  }
  const ours = all.filter((claim) => claim.metadata.deletionTimestamp === undefined && !isForeign(claim, name));
  const grown = await growClaims(options.client, bookStore, settings, ours);
  const grownInUse = inUse(grown.claims, settings);
  const growth = growthOf(grownInUse, settings.database.size);
  const error = grown.refusal?.error;
  const deleted = deletedClaim(claims);
  if (deleted !== undefined) {
    const volume = volumeOutcome(grown, growth, [], settings);
    return { database: deleted, volume, statefulSet: present, claims: grownInUse, error };
  }
  const allowed = foreign === undefined ? settings : withoutMoreReplicas(settings, present);
  let applied: Applied<StatefulSet>;
  try {
    applied = await applyStatefulSet(bookStore, allowed, present, options);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const volume = volumeOutcome(grown, growth, [], settings);
    return { database: refused(error), volume, statefulSet: present, claims: grownInUse, error };
  }
  if (applied.type === 'nameTaken') return appliedResult(bookStore, applied, noVolumeGrowing, claims, options);
  const { stuck, requeueAfterMs } = await restartPending(growth, applied.object, bookStore, settings, options);
  const volume = volumeOutcome(grown, growth, stuck, settings);
  const result = appliedResult(bookStore, applied, volume, grownInUse, options);
  return { ...result, ...(foreign && { database: foreign }), requeueAfterMs, error };
}

/** The outcome of claims that this reconcile does not grow. */
const observedVolume = (claims: readonly PersistentVolumeClaim[], settings: Settings): DatabaseResult['volume'] =>
  volumeOutcome({ claims }, growthOf(claims, settings.database.size), [], settings);

const applyStatefulSet = (
  bookStore: BookStore,
  settings: Settings,
  present: StatefulSet | undefined,
  { applier, statefulSets, podDefaults, client }: DatabaseOptions,
): Promise<Applied<StatefulSet>> => {
  const manifest = statefulSetOf(bookStore, settings, present, podDefaults);
  return applier.apply(StatefulSet, manifest, { client, store: statefulSets });
};

function appliedResult(
  bookStore: BookStore,
  applied: Applied<StatefulSet>,
  volume: DatabaseResult['volume'],
  claims: readonly PersistentVolumeClaim[],
  options: DatabaseOptions,
): DatabaseResult {
  if (applied.type === 'nameTaken') {
    return { database: statefulSetNameTaken(bookStore, applied.holder), volume, claims };
  }
  return { database: databaseOutcome(applied.object, options), volume, statefulSet: applied.object, claims };
}

const statefulSetNameTaken = (bookStore: BookStore, holder: StatefulSet): PartOutcome =>
  nameTakenOutcome(bookStore, StatefulSet, holder, 'delete one of the two');

/** The outcome if a pod of the database would use a claim of another controller. Undefined if there is no such claim. */
function foreignClaim(
  bookStore: BookStore,
  claims: readonly PersistentVolumeClaim[],
  statefulSetName: string,
): PartOutcome | undefined {
  const foreign = claims.find((claim) => isForeign(claim, statefulSetName));
  if (foreign === undefined) return undefined;
  const advice = 'the database would use its data. Delete it, or remove its controller reference';
  return nameTakenOutcome(bookStore, PersistentVolumeClaim, foreign, advice);
}

/** The outcome if a claim in use is being deleted: it exists for as long as its pod. Undefined if there is no such claim. */
function deletedClaim(claims: readonly PersistentVolumeClaim[]): PartOutcome | undefined {
  const deleted = claims.find(({ metadata }) => metadata.deletionTimestamp !== undefined);
  if (deleted === undefined) return undefined;
  const { name } = deleted.metadata;
  const message = `claim ${name} is being deleted, and its data is lost when its pod ends: save the data, then delete that pod; until then no pod is replaced`;
  return { reason: 'ClaimBeingDeleted', message };
}

/** The settings without more replicas than the StatefulSet has: an additional pod would use a foreign claim. */
function withoutMoreReplicas(settings: Settings, { spec }: StatefulSet): Settings {
  const { database } = settings;
  return { ...settings, database: { ...database, replicas: Math.min(database.replicas, spec?.replicas ?? 1) } };
}

function databaseOutcome(statefulSet: StatefulSet, { pods }: DatabaseOptions): PartOutcome {
  const { desired, ready, updated, isComplete } = rolloutOf(statefulSet);
  if (!isComplete) {
    const detail = problemAmong(pods.byOwner(statefulSet.metadata.uid)) ?? `${updated} are of the current template`;
    return { reason: 'DatabaseUpdating', message: `${ready} of ${desired} databases are ready: ${detail}` };
  }
  if (desired <= 1) return { reason: 'DatabaseServing', message: `${ready} of ${desired} databases are ready` };
  const message = `${desired} databases are ready, but they are independent: each has its own data`;
  return { reason: 'IndependentDatabases', message };
}

/**
 * The StatefulSet that runs the database.
 *
 * @param present the existing StatefulSet, if there is one. Its claim templates and its serviceName are immutable, so the manifest
 *   repeats them. A claim that is created with an earlier size grows like any other.
 */
export function statefulSetOf(
  bookStore: BookStore,
  { database }: Settings,
  present: StatefulSet | undefined,
  podDefaults: PodDefaults,
): Manifest<StatefulSet> {
  const { replicas, port, dataPath, serviceName } = database;
  return {
    metadata: {
      ...statefulSetKey(bookStore),
      labels: objectLabels(bookStore, 'database'),
      ownerReferences: [controllerReference(BookStore, bookStore)],
    },
    spec: {
      replicas,
      serviceName: present?.spec?.serviceName ?? serviceName,
      // The databases are independent, so they need no order. With OrderedReady, the StatefulSet controller would wait for a pod
      // with a wrong image even after the image is corrected.
      podManagementPolicy: 'Parallel',
      selector: { matchLabels: selectorLabels(bookStore, 'database') },
      // The StatefulSet controller deletes no claim: see reclaim.ts.
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
      template: {
        metadata: { labels: objectLabels(bookStore, 'database') },
        spec: podSpecOf(database, podDefaults, {
          name: 'database',
          ports: [{ name: 'database', containerPort: port }],
          readinessProbe: readyWhenListening(port),
          volumeMounts: [{ name: volumeName, mountPath: dataPath }],
        }),
      },
      volumeClaimTemplates: present?.spec?.volumeClaimTemplates ?? [claimTemplate(bookStore, database)],
    },
  };
}

/** Contains the API server's defaults: the list is atomic, so without them each restart of the operator would cost an apply. */
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

/** The headless Service of the database. */
export function databaseServiceOf(bookStore: BookStore, { database }: Settings): Manifest<Service> {
  const { port } = database;
  return {
    metadata: {
      ...databaseServiceKey(bookStore),
      labels: objectLabels(bookStore, 'database'),
      ownerReferences: [controllerReference(BookStore, bookStore)],
    },
    spec: {
      clusterIP: 'None',
      selector: selectorLabels(bookStore, 'database'),
      ports: [{ name: 'database', protocol: 'TCP', port, targetPort: port }],
    },
  };
}
