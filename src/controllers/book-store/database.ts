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
import { PersistentVolumeClaim, type Pod, Service, StatefulSet } from '../built-in-kinds.ts';
import { problemAmong } from '../pods.ts';
import {
  bookStoreUidLabel,
  databaseServiceKey,
  objectLabels,
  readyWhenListening,
  type Settings,
  selectorLabels,
  statefulSetKey,
  volumeName,
} from './desired.ts';
import { type DatabaseResult, nameTaken, type PartFinding, refused, replacing, rolloutOf } from './status.ts';
import { growClaims, growthOf, inUse, isForeign, restartPending, settled, volumeFinding } from './volumes.ts';

/** What the reconcile of the database reads and writes. */
export interface DatabaseOptions extends Pick<ReconcileContext, 'client' | 'log'> {
  readonly statefulSets: ReadonlyStore<StatefulSet>;
  readonly services: ReadonlyStore<Service>;
  readonly pods: Pick<ReadonlyStore<Pod>, 'byOwner'>;
  /** The claims that the pods use or will use, in the order of the pods, whoever created them. */
  readonly claims: readonly PersistentVolumeClaim[];
  readonly applier: Applier;
  readonly events: EventRecorder;
}

/** What there is to tell of the Service; nothing if it is as the spec asks. */
interface ServiceResult {
  readonly database?: PartFinding;
  /** Why the database that the app would dial is somebody else's, if it is. */
  readonly foreignDatabase?: PartFinding;
  readonly error?: ApiError;
}

/**
 * Applies the database's headless Service and StatefulSet, and grows its volumes.
 *
 * @throws whatever the client throws, except a refusal, which the result holds.
 */
export async function reconcileDatabase(
  bookStore: BookStore,
  settings: Settings,
  options: DatabaseOptions,
): Promise<DatabaseResult & Pick<ServiceResult, 'foreignDatabase'>> {
  const service = await applyService(bookStore, settings, options);
  const present = options.statefulSets.get(statefulSetKey(bookStore));
  const own = present !== undefined && isControlledBy(present, bookStore) ? present : undefined;
  // A StatefulSet that exists is reconciled even if its Service is somebody else's.
  if (service.foreignDatabase !== undefined && own === undefined) {
    const { foreignDatabase } = service;
    return { database: foreignDatabase, volume: settled, claims: inUse(options.claims, settings), foreignDatabase };
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
    if (applied.type === 'terminating') return { database: replacing(Service, applied.object) };
    if (applied.type !== 'nameTaken') return {};
    const advice =
      'delete it, or create this BookStore again with another bookDB.serviceName, and have the app dial that';
    const foreignDatabase = nameTaken(bookStore, Service, applied.holder, advice);
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
    if (foreign !== undefined) return { database: foreign, volume: settled, claims };
    const created = await applyStatefulSet(bookStore, settings, undefined, options);
    return appliedResult(bookStore, created, observedVolume(claims, settings), claims, options);
  }
  if (!isControlledBy(present, bookStore)) {
    return { database: statefulSetNameTaken(bookStore, present), volume: settled, claims };
  }
  if (present.metadata.deletionTimestamp !== undefined) {
    return { database: replacing(StatefulSet, present), volume: observedVolume(claims, settings), claims };
  }
  const ours = all.filter((claim) => claim.metadata.deletionTimestamp === undefined && !isForeign(claim, name));
  const grown = await growClaims(options.client, bookStore, settings, ours);
  const grownInUse = inUse(grown.claims, settings);
  const growth = growthOf(grownInUse, settings.database.size);
  const error = grown.refusal?.error;
  const deleted = deletedClaim(claims);
  if (deleted !== undefined) {
    const volume = volumeFinding(grown, growth, [], settings);
    return { database: deleted, volume, statefulSet: present, claims: grownInUse, error };
  }
  const allowed = foreign === undefined ? settings : withoutMoreReplicas(settings, present);
  const applied = await applyStatefulSet(bookStore, allowed, present, options);
  if (applied.type === 'nameTaken') return appliedResult(bookStore, applied, settled, claims, options);
  const { stuck, requeueAfterMs } = await restartPending(growth, applied.object, bookStore, settings, options);
  const volume = volumeFinding(grown, growth, stuck, settings);
  const result = appliedResult(bookStore, applied, volume, grownInUse, options);
  return { ...result, ...(foreign && { database: foreign }), requeueAfterMs, error };
}

/** What there is to tell of claims that this reconcile does not grow. */
const observedVolume = (claims: readonly PersistentVolumeClaim[], settings: Settings): DatabaseResult['volume'] =>
  volumeFinding({ claims }, growthOf(claims, settings.database.size), [], settings);

const applyStatefulSet = (
  bookStore: BookStore,
  settings: Settings,
  present: StatefulSet | undefined,
  { applier, statefulSets, client }: DatabaseOptions,
): Promise<Applied<StatefulSet>> =>
  applier.apply(StatefulSet, statefulSetOf(bookStore, settings, present), { client, store: statefulSets });

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
  return { database: databaseFinding(applied.object, options), volume, statefulSet: applied.object, claims };
}

const statefulSetNameTaken = (bookStore: BookStore, holder: StatefulSet): PartFinding =>
  nameTaken(bookStore, StatefulSet, holder, 'delete one of the two');

/** What there is to tell of a claim that would make somebody else's data the database, if there is one. */
function foreignClaim(
  bookStore: BookStore,
  claims: readonly PersistentVolumeClaim[],
  statefulSetName: string,
): PartFinding | undefined {
  const foreign = claims.find((claim) => isForeign(claim, statefulSetName));
  if (foreign === undefined) return undefined;
  const advice = 'its data would become the database. Delete it, or take its controller reference off';
  return nameTaken(bookStore, PersistentVolumeClaim, foreign, advice);
}

/** What there is to tell of the first claim in use that somebody deletes, if there is one. Its pod keeps it for now. */
function deletedClaim(claims: readonly PersistentVolumeClaim[]): PartFinding | undefined {
  const deleted = claims.find(({ metadata }) => metadata.deletionTimestamp !== undefined);
  if (deleted === undefined) return undefined;
  const { name } = deleted.metadata;
  const message = `claim ${name} is being deleted, and its data goes with the pod that has it: save the data, then delete that pod; until then no pod is replaced`;
  return { reason: 'ClaimBeingDeleted', message };
}

/** Another pod would take up a foreign claim. */
function withoutMoreReplicas(settings: Settings, { spec }: StatefulSet): Settings {
  const { database } = settings;
  return { ...settings, database: { ...database, replicas: Math.min(database.replicas, spec?.replicas ?? 1) } };
}

function databaseFinding(statefulSet: StatefulSet, { pods }: DatabaseOptions): PartFinding {
  const { desired, ready, updated, isComplete } = rolloutOf(statefulSet);
  if (!isComplete) {
    const detail = problemAmong(pods.byOwner(statefulSet.metadata.uid)) ?? `${updated} are of the present template`;
    return { reason: 'DatabaseUpdating', message: `${ready} of ${desired} databases are ready: ${detail}` };
  }
  if (desired <= 1) return { reason: 'DatabaseServing', message: `${ready} of ${desired} databases are ready` };
  const message = `${desired} databases are ready that know nothing of one another: each has its own data`;
  return { reason: 'IndependentDatabases', message };
}

/**
 * The StatefulSet that runs the database.
 *
 * @param present the one that is there: its claim templates and its serviceName cannot change, so an apply must repeat them.
 *   A claim that is created from an earlier size grows like any other.
 */
export function statefulSetOf(
  bookStore: BookStore,
  { database }: Settings,
  present: StatefulSet | undefined,
): Manifest<StatefulSet> {
  const { container, replicas, port, dataPath, serviceName } = database;
  return {
    metadata: {
      ...statefulSetKey(bookStore),
      labels: objectLabels(bookStore, 'database'),
      ownerReferences: [controllerReference(BookStore, bookStore)],
    },
    spec: {
      replicas,
      serviceName: present?.spec?.serviceName ?? serviceName,
      // The databases are independent, so none waits for another. In order, a pod with a wrong image would be waited for even
      // after the image is corrected.
      podManagementPolicy: 'Parallel',
      selector: { matchLabels: selectorLabels(bookStore, 'database') },
      // The StatefulSet controller deletes no claim: see reclaim.ts.
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
      template: {
        metadata: { labels: objectLabels(bookStore, 'database') },
        spec: {
          automountServiceAccountToken: false,
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
      volumeClaimTemplates: present?.spec?.volumeClaimTemplates ?? [claimTemplate(bookStore, database)],
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
