import { BookStore } from '../../api/index.ts';
import { type ApiError, isRefusal } from '../../runtime/client/index.ts';
import {
  type Applier,
  type ApplyResult,
  type Client,
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
import { refusedOutcome } from '../refusal.ts';
import {
  claimsWithinReplicas,
  isForeign,
  isTooSmall,
  ordinalOf,
  resizeProgressOf,
  setClaimRequests,
  statefulSetOfClaim,
} from './claims.ts';
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
import { restartPodsForFileSystemResize } from './restart.ts';
import { type ComponentOutcome, type DatabaseResult, kubectl, nameTakenOutcome, rolloutOf } from './status.ts';
import { volumeOutcome, volumesNotChecked } from './volume-outcome.ts';

/** Options of {@link reconcileDatabase}. */
export interface DatabaseOptions extends Pick<ReconcileContext, 'client' | 'log'> {
  readonly statefulSets: ReadonlyStore<StatefulSet>;
  readonly services: ReadonlyStore<Service>;
  readonly pods: Pick<ReadonlyStore<Pod>, 'byOwner'>;
  readonly podDefaults: PodDefaults;
  /** The claims that the pods use or will use, in the order of the pods, whoever created them. */
  readonly claims: readonly PersistentVolumeClaim[];
  readonly applier: Pick<Applier, 'apply'>;
  readonly events: EventRecorder;
}

/** The outcome of the Service. Empty if the Service matches the spec. */
interface ServiceResult {
  readonly database?: ComponentOutcome;
  /** Set if the Service does not belong to this BookStore: the app would connect to another database. */
  readonly serviceTaken?: ComponentOutcome;
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
): Promise<DatabaseResult & Pick<ServiceResult, 'serviceTaken'>> {
  const service = await applyService(bookStore, settings, options);
  const existing = options.statefulSets.get(statefulSetKey(bookStore));
  const ownStatefulSet = existing !== undefined && isControlledBy(existing, bookStore) ? existing : undefined;
  const claims = claimsWithinReplicas(options.claims, settings.database.replicas);
  // Reconcile an existing StatefulSet even if the Service belongs to another owner.
  if (service.serviceTaken !== undefined && ownStatefulSet === undefined) {
    const { serviceTaken } = service;
    return { database: serviceTaken, volume: volumesNotChecked(bookStore, serviceTaken), claims, serviceTaken };
  }
  try {
    const result = await reconcileStatefulSet(bookStore, settings, existing, options);
    // Data is about to be lost: that is more urgent than the Service.
    const isUrgent = result.database.reason === 'ClaimBeingDeleted';
    return { ...result, ...service, ...(isUrgent && { database: result.database }) };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const database = refusedOutcome(error);
    return {
      database,
      volume: volumesNotChecked(bookStore, database),
      statefulSet: ownStatefulSet,
      claims,
      error,
      ...service,
    };
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
    const command = kubectl(bookStore, `delete service ${applied.holder.metadata.name}`);
    const advice = `delete it (${command}), or create this BookStore again with another bookDB.serviceName, and configure the app to connect to that`;
    const serviceTaken = nameTakenOutcome(bookStore, Service, applied.holder, advice);
    return { database: serviceTaken, serviceTaken };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { database: refusedOutcome(error), error };
  }
}

async function reconcileStatefulSet(
  bookStore: BookStore,
  settings: Settings,
  existing: StatefulSet | undefined,
  options: DatabaseOptions,
): Promise<DatabaseResult> {
  const claims = claimsWithinReplicas(options.claims, settings.database.replicas);
  const { name } = statefulSetKey(bookStore);
  // Read the claims from the API server: the first pods would use a foreign claim that the cache does not show yet.
  const present = existing === undefined ? await liveClaims(bookStore, settings, options.client) : claims;
  const claimTaken = claimTakenOutcome(bookStore, present, name);
  const notChecked = (database: ComponentOutcome): DatabaseResult => ({
    database,
    volume: volumesNotChecked(bookStore, database),
    claims,
  });
  if (existing === undefined) {
    if (claimTaken !== undefined) return notChecked(claimTaken);
    const created = await applyStatefulSet(bookStore, settings, undefined, options);
    if (created.type === 'nameTaken') return notChecked(statefulSetNameTaken(bookStore, created.holder));
    if (created.type === 'terminating') return notChecked(beingDeleted(StatefulSet, created.object));
    // The ADDED event of the StatefulSet enqueues the key, and that reconcile grows the claims.
    const volume = claims.some((claim) => isTooSmall(claim, settings.database.size))
      ? volumesNotChecked(bookStore, { message: `StatefulSet ${name} is being created` })
      : volumeOutcome(bookStore, settings, { claims });
    const database = databaseOutcome(bookStore, created.object, options);
    return { database, volume, statefulSet: created.object, claims };
  }
  if (!isControlledBy(existing, bookStore)) return notChecked(statefulSetNameTaken(bookStore, existing));
  if (existing.metadata.deletionTimestamp !== undefined) return notChecked(beingDeleted(StatefulSet, existing));
  const patches = await setClaimRequests(options.client, bookStore, settings.database, options.claims);
  const patchedClaims = claimsWithinReplicas(patches.claims, settings.database.replicas);
  const { fileSystems } = resizeProgressOf(patchedClaims, settings.database.size);
  const resultOf = async (
    statefulSet: StatefulSet,
    database: ComponentOutcome,
    blocked: { readonly until?: string; readonly error?: ApiError } = {},
  ): Promise<DatabaseResult> => {
    const context = { ...options, blockedUntil: blocked.until };
    const restart = await restartPodsForFileSystemResize(
      fileSystems,
      statefulSet,
      bookStore,
      settings.database,
      context,
    );
    const volume = patches.isOutdated
      ? volumesNotChecked(bookStore, { message: 'the BookStore has changed since the operator read it' })
      : volumeOutcome(bookStore, settings, { ...patches, claims: patchedClaims, restart });
    // Retries after a refusal with backoff. A request that a webhook has changed is no error, and causes no event.
    const requeueAfterMs = minOf(restart.requeueAfterMs, patches.refusals.length > 0 ? requestRetryMs : undefined);
    const error = blocked.error ?? patches.refusals.find((refused) => refused.error)?.error ?? restart.error;
    return { database, volume, statefulSet, claims: patchedClaims, requeueAfterMs, error };
  };
  const deletedClaim = claims.find(({ metadata }) => metadata.deletionTimestamp !== undefined);
  if (deletedClaim !== undefined) {
    const until = `claim ${deletedClaim.metadata.name} is deleted`;
    return resultOf(existing, claimBeingDeletedOutcome(bookStore, deletedClaim), { until });
  }
  const settingsToApply = claimTaken === undefined ? settings : withoutMoreReplicas(settings, existing);
  let applied: ApplyResult<StatefulSet>;
  try {
    applied = await applyStatefulSet(bookStore, settingsToApply, existing, options);
  } catch (refusal) {
    if (!isRefusal(refusal)) throw refusal;
    const until = `the API server accepts StatefulSet ${name}`;
    return resultOf(existing, refusedOutcome(refusal), { until, error: refusal });
  }
  if (applied.type === 'nameTaken') return notChecked(statefulSetNameTaken(bookStore, applied.holder));
  if (applied.type === 'terminating') return notChecked(beingDeleted(StatefulSet, applied.object));
  return resultOf(applied.object, claimTaken ?? databaseOutcome(bookStore, applied.object, options));
}

/** When to set the request of a claim again if a webhook has changed it. */
const requestRetryMs = 60_000;

const minOf = (...delaysMs: readonly (number | undefined)[]): number | undefined => {
  const defined = delaysMs.filter((delayMs) => delayMs !== undefined);
  return defined.length === 0 ? undefined : Math.min(...defined);
};

/** The claims that the database's pods would use, as the API server has them. One request, because there may be any number of replicas. */
async function liveClaims(
  bookStore: BookStore,
  { database }: Settings,
  client: Client,
): Promise<readonly PersistentVolumeClaim[]> {
  const { namespace = '', name } = statefulSetKey(bookStore);
  const { items } = await client.list(PersistentVolumeClaim, { namespace });
  return claimsWithinReplicas(
    items.filter((claim) => statefulSetOfClaim(claim)?.name === name),
    database.replicas,
  );
}

const applyStatefulSet = (
  bookStore: BookStore,
  settings: Settings,
  existing: StatefulSet | undefined,
  { applier, statefulSets, podDefaults, client }: DatabaseOptions,
): Promise<ApplyResult<StatefulSet>> => {
  const manifest = statefulSetOf(bookStore, settings, existing, podDefaults);
  return applier.apply(StatefulSet, manifest, { client, store: statefulSets });
};

function statefulSetNameTaken(bookStore: BookStore, holder: StatefulSet): ComponentOutcome {
  const command = kubectl(bookStore, `delete statefulset ${holder.metadata.name}`);
  const advice = `delete it (${command}), or create this BookStore again under another name`;
  return nameTakenOutcome(bookStore, StatefulSet, holder, advice);
}

/** The outcome if a pod of the database would use a claim of another controller. Undefined if there is no such claim. */
function claimTakenOutcome(
  bookStore: BookStore,
  claims: readonly PersistentVolumeClaim[],
  statefulSetName: string,
): ComponentOutcome | undefined {
  const foreignClaim = claims.find(isForeign);
  if (foreignClaim === undefined) return undefined;
  const command = kubectl(bookStore, `delete pvc ${foreignClaim.metadata.name}`);
  const pod = `${statefulSetName}-${ordinalOf(foreignClaim)}`;
  const advice = `pod ${pod} would use its data. To use that data, remove the claim's owner reference that has controller: true. If nobody needs it, delete the claim (${command})`;
  return nameTakenOutcome(bookStore, PersistentVolumeClaim, foreignClaim, advice);
}

/** The outcome if a claim in use is being deleted: it exists for as long as its pod. */
function claimBeingDeletedOutcome(bookStore: BookStore, claim: PersistentVolumeClaim): ComponentOutcome {
  const { name: statefulSetName } = statefulSetKey(bookStore);
  const pod = `${statefulSetName}-${ordinalOf(claim)}`;
  const message = `claim ${claim.metadata.name} is being deleted: its data is lost when pod ${pod} ends. Save the data, then run ${kubectl(bookStore, `delete pod ${pod}`)}; until then the operator does not change StatefulSet ${statefulSetName}`;
  return { reason: 'ClaimBeingDeleted', message };
}

/** The settings without more replicas than the StatefulSet has: an additional pod would use a foreign claim. */
function withoutMoreReplicas(settings: Settings, { spec }: StatefulSet): Settings {
  const { database } = settings;
  return { ...settings, database: { ...database, replicas: Math.min(database.replicas, spec?.replicas ?? 1) } };
}

function databaseOutcome(bookStore: BookStore, statefulSet: StatefulSet, { pods }: DatabaseOptions): ComponentOutcome {
  const { name, uid } = statefulSet.metadata;
  const { desired, ready, updated, isComplete } = rolloutOf(statefulSet);
  const readyPods = `${ready} of ${desired} pods of StatefulSet ${name} are ready`;
  if (!isComplete) {
    const detail =
      problemAmong(pods.byOwner(uid)) ??
      `${updated} have the current template (${kubectl(bookStore, `describe statefulset ${name}`)})`;
    return { reason: 'DatabaseUpdating', message: `${readyPods}: ${detail}` };
  }
  if (desired <= 1) return { reason: 'DatabaseServing', message: readyPods };
  const message = `${readyPods}, but their databases are independent: each has its own data. Set bookDB.replicas to 1, unless the image replicates the data`;
  return { reason: 'IndependentDatabases', message };
}

/**
 * The StatefulSet that runs the database.
 *
 * @param existing the stored StatefulSet, if there is one. Its claim templates and its serviceName are immutable, so the manifest
 *   repeats them. A claim that is created with an earlier size grows like any other.
 */
export function statefulSetOf(
  bookStore: BookStore,
  { database }: Settings,
  existing: StatefulSet | undefined,
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
      serviceName: existing?.spec?.serviceName ?? serviceName,
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
      volumeClaimTemplates: existing?.spec?.volumeClaimTemplates ?? [claimTemplate(bookStore, database)],
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
