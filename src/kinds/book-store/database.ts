import { controllerOf, isControlledBy } from '@echoperator/runtime';
import { type ApiError, isRefusal } from '@echoperator/runtime/client';
import { type Child, refusedOutcome, replacingOutcome } from '@echoperator/runtime/controller';
import { PersistentVolumeClaim, Pod, Service, StatefulSet } from '@echoperator/runtime/kinds';
import { whyNoPod } from '../shared/missing-pods.ts';
import type { PodDefaults } from '../shared/pod-defaults.ts';
import { problemAmong } from '../shared/pods.ts';
import {
  claimsWithinReplicas,
  growthOf,
  isForeign,
  listClaims,
  mustGrow,
  podNameOf,
  setClaimRequests,
} from './claims.ts';
import type { BookStoreContext } from './context.ts';
import {
  bookStoreUidLabel,
  childMetadata,
  type DatabaseSpec,
  databaseServiceKey,
  podMetadataFor,
  podSpecOf,
  readyWhenListening,
  type SpecWithDefaults,
  selectorLabels,
  statefulSetKey,
  volumeName,
} from './desired.ts';
import type { BookStore } from './kind.ts';
import { withLink } from './reasons.ts';
import { restartPodsForFileSystemResize } from './restart.ts';
import { type ComponentOutcome, type DatabaseResult, kubectlCommand, nameTakenOutcome, rolloutOf } from './status.ts';
import { volumeOutcome, volumesNotChecked } from './volume-outcome.ts';

/** Options of {@link reconcileDatabase}. */
export interface DatabaseOptions {
  readonly context: Pick<BookStoreContext, 'get' | 'owned' | 'tryApply' | 'isCurrent' | 'event' | 'client' | 'memory'>;
  readonly podDefaults: PodDefaults;
  readonly allClaims: readonly PersistentVolumeClaim[];
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
  spec: SpecWithDefaults,
  options: DatabaseOptions,
): Promise<DatabaseResult & Pick<ServiceResult, 'serviceTaken'>> {
  const service = await applyService(bookStore, spec, options);
  const existing = options.context.get(StatefulSet, statefulSetKey(bookStore));
  const ownStatefulSet = existing !== undefined && isControlledBy(existing, bookStore) ? existing : undefined;
  const claims = claimsWithinReplicas(options.allClaims, spec.database.replicas);
  // Reconcile an existing StatefulSet even if the Service belongs to another owner.
  if (service.serviceTaken !== undefined && ownStatefulSet === undefined) {
    const { serviceTaken } = service;
    return { ...notChecked(bookStore, serviceTaken, claims), serviceTaken };
  }
  try {
    const result =
      existing === undefined
        ? await createStatefulSet(bookStore, spec, claims, options)
        : await updateStatefulSet(bookStore, spec, existing, claims, options);
    // Data is about to be lost: that is more urgent than the Service.
    const isUrgent = result.database.reason === 'ClaimBeingDeleted';
    return { ...result, ...service, ...(isUrgent && { database: result.database }) };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const result = notChecked(bookStore, refusedOutcome(error), claims);
    return { ...result, statefulSet: ownStatefulSet, error, ...service };
  }
}

async function applyService(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  { context }: DatabaseOptions,
): Promise<ServiceResult> {
  try {
    const applied = await context.tryApply(Service, databaseServiceOf(bookStore, spec));
    if (applied.type === 'terminating') return { database: replacingOutcome(Service, applied.object) };
    if (applied.type !== 'nameTaken') return {};
    const serviceTaken = nameTakenOutcome(bookStore, Service, applied.holder);
    return { database: serviceTaken, serviceTaken };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { database: refusedOutcome(error), error };
  }
}

async function createStatefulSet(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  claims: readonly PersistentVolumeClaim[],
  options: DatabaseOptions,
): Promise<DatabaseResult> {
  // Read the claims from the API server: the first pods would use a foreign claim that the cache does not show yet.
  const live = claimsWithinReplicas(await listClaims(options.context.client, bookStore), spec.database.replicas);
  const claimTaken = claimTakenOutcome(bookStore, live);
  if (claimTaken !== undefined) return notChecked(bookStore, claimTaken, claims);
  const { statefulSet, database, requeueAfterMs } = await applyStatefulSet(bookStore, spec, undefined, options);
  if (statefulSet === undefined) return notChecked(bookStore, database, claims);
  if (!claims.some((claim) => mustGrow(claim, spec.database.size))) {
    return { database, volume: volumeOutcome(bookStore, spec, { claims }), statefulSet, claims, requeueAfterMs };
  }
  const message = `StatefulSet ${statefulSet.metadata.name} was just created; the next reconcile checks the volumes`;
  // Its creation does not enqueue the key.
  return { database, volume: volumesNotChecked(bookStore, { message }), statefulSet, claims, requeueAfterMs: 0 };
}

async function updateStatefulSet(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  existing: StatefulSet,
  claims: readonly PersistentVolumeClaim[],
  options: DatabaseOptions,
): Promise<DatabaseResult> {
  if (!isControlledBy(existing, bookStore)) {
    return notChecked(bookStore, nameTakenOutcome(bookStore, StatefulSet, existing), claims);
  }
  if (existing.metadata.deletionTimestamp !== undefined) {
    return notChecked(bookStore, replacingOutcome(StatefulSet, existing), claims);
  }
  const patches = await setClaimRequests(options.context, spec.database, options.allClaims);
  const patchedClaims = claimsWithinReplicas(patches.claims, spec.database.replicas);
  const update = await applyUnlessClaimDeleted(bookStore, spec, existing, claims, options);
  const { statefulSet, database, waitsFor } = update;
  if (statefulSet === undefined) return notChecked(bookStore, database, claims);
  const restart = await restartPodsForFileSystemResize(
    patchedClaims.flatMap((claim) => growthOf(claim, spec.database.size) ?? []),
    statefulSet,
    spec.database,
    options.context,
    waitsFor,
  );
  const volume = patches.isBookStoreStale
    ? volumesNotChecked(bookStore, { message: 'the BookStore has changed since the operator read it' })
    : volumeOutcome(bookStore, spec, { ...patches, claims: patchedClaims, restart });
  // Retries after a refusal with backoff. A request that a webhook has changed is no error, and causes no event.
  const retryAfterMs = patches.refusals.length > 0 ? requestRetryMs : undefined;
  const requeueAfterMs = minOf(restart.requeueAfterMs, retryAfterMs, update.requeueAfterMs);
  const error = update.error ?? patches.refusals.find((refused) => refused.error)?.error ?? restart.error;
  return { database, volume, statefulSet, claims: patchedClaims, requeueAfterMs, error };
}

/** The outcome of an apply of the StatefulSet. */
interface StatefulSetOutcome {
  readonly database: ComponentOutcome;
  /** Undefined if this BookStore owns no StatefulSet, or if that is being deleted. */
  readonly statefulSet?: StatefulSet;
  /** What the restart of a pod waits for. */
  readonly waitsFor?: string;
  /** When to look again why the StatefulSet has too few pods. */
  readonly requeueAfterMs?: number | undefined;
  readonly error?: ApiError;
}

async function applyUnlessClaimDeleted(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  existing: StatefulSet,
  claims: readonly PersistentVolumeClaim[],
  options: DatabaseOptions,
): Promise<StatefulSetOutcome> {
  const deletedClaim = claims.find(({ metadata }) => metadata.deletionTimestamp !== undefined);
  if (deletedClaim !== undefined) {
    const waitsFor = `claim ${deletedClaim.metadata.name} is deleted`;
    return { database: claimBeingDeletedOutcome(bookStore, deletedClaim), statefulSet: existing, waitsFor };
  }
  const claimTaken = claimTakenOutcome(bookStore, claims);
  const specToApply = claimTaken === undefined ? spec : withoutMoreReplicas(spec, existing);
  try {
    const outcome = await applyStatefulSet(bookStore, specToApply, existing, options);
    return claimTaken === undefined || outcome.statefulSet === undefined
      ? outcome
      : { ...outcome, database: claimTaken };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const waitsFor = `the API server accepts StatefulSet ${existing.metadata.name}`;
    return { database: refusedOutcome(error), statefulSet: existing, waitsFor, error };
  }
}

async function applyStatefulSet(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  existing: StatefulSet | undefined,
  options: DatabaseOptions,
): Promise<StatefulSetOutcome> {
  const { context, podDefaults } = options;
  const applied = await context.tryApply(StatefulSet, statefulSetOf(bookStore, spec, existing, podDefaults));
  if (applied.type === 'nameTaken') return { database: nameTakenOutcome(bookStore, StatefulSet, applied.holder) };
  if (applied.type === 'terminating') return { database: replacingOutcome(StatefulSet, applied.object) };
  return { ...(await databaseOutcome(bookStore, applied.object, options)), statefulSet: applied.object };
}

const notChecked = (
  bookStore: BookStore,
  database: ComponentOutcome,
  claims: readonly PersistentVolumeClaim[],
): DatabaseResult => ({ database, volume: volumesNotChecked(bookStore, database), claims });

/** When to set the request of a claim again if a webhook has changed it. */
const requestRetryMs = 60_000;

/** The shortest of the delays that are defined. */
export const minOf = (...delaysMs: readonly (number | undefined)[]): number | undefined => {
  const defined = delaysMs.filter((delayMs) => delayMs !== undefined);
  return defined.length === 0 ? undefined : Math.min(...defined);
};

/**
 * The outcome if a pod of the database would use a claim of another controller. Undefined if there is no such claim.
 */
function claimTakenOutcome(
  bookStore: BookStore,
  claims: readonly PersistentVolumeClaim[],
): ComponentOutcome | undefined {
  const foreignClaim = claims.find(isForeign);
  const controller = foreignClaim && controllerOf(foreignClaim);
  if (foreignClaim === undefined || controller === undefined) return undefined;
  const problem = `claim ${foreignClaim.metadata.name} is controlled by ${controller.kind} ${controller.name}, so the operator neither grows it nor adds a pod to StatefulSet ${statefulSetKey(bookStore).name}`;
  return nameTakenOutcome(bookStore, PersistentVolumeClaim, foreignClaim, problem);
}

/** The outcome if a claim in use is being deleted: it exists for as long as its pod. */
function claimBeingDeletedOutcome(bookStore: BookStore, claim: PersistentVolumeClaim): ComponentOutcome {
  const { name } = claim.metadata;
  const volume = claim.spec?.volumeName;
  const loss =
    volume === undefined
      ? 'it has no volume, so no data is lost'
      : `when pod ${podNameOf(claim)} ends, PersistentVolume ${volume} is deleted with the data, unless its persistentVolumeReclaimPolicy is Retain`;
  const { name: statefulSet } = statefulSetKey(bookStore);
  const wait = `until it is gone, the operator does not change StatefulSet ${statefulSet}`;
  const reason = 'ClaimBeingDeleted';
  return { reason, message: withLink(`claim ${name} is being deleted: ${loss}; ${wait}`, reason) };
}

/** The spec without more replicas than the StatefulSet has: an additional pod would use a foreign claim. */
function withoutMoreReplicas(spec: SpecWithDefaults, statefulSet: StatefulSet): SpecWithDefaults {
  const { database } = spec;
  return { ...spec, database: { ...database, replicas: Math.min(database.replicas, statefulSet.spec?.replicas ?? 1) } };
}

async function databaseOutcome(
  bookStore: BookStore,
  statefulSet: StatefulSet,
  { context }: DatabaseOptions,
): Promise<Pick<StatefulSetOutcome, 'database' | 'requeueAfterMs'>> {
  const { name } = statefulSet.metadata;
  const { desired, ready, updated, isComplete } = rolloutOf(statefulSet);
  const readyPods = `${ready} of ${desired} pods of StatefulSet ${name} are ready`;
  const lacks = !isComplete && lacksPods(statefulSet);
  if (!lacks) delete context.memory.missingPods;
  if (!isComplete) {
    const missing = lacks
      ? await whyNoPod({ kind: StatefulSet, metadata: statefulSet.metadata, sinceMs: createdMs(statefulSet) }, context)
      : undefined;
    const detail =
      problemAmong(context.owned(Pod, statefulSet)) ??
      missing?.problem ??
      `${updated} have the current template (${kubectlCommand(bookStore, `describe statefulset ${name}`)})`;
    const database = { reason: 'DatabaseUpdating', message: `${readyPods}: ${detail}` } as const;
    return { database, requeueAfterMs: missing?.requeueAfterMs };
  }
  if (desired <= 1) return { database: { reason: 'DatabaseServing', message: readyPods } };
  const reason = 'IndependentDatabases';
  const message = `${readyPods}, but their databases are independent: each has its own data`;
  return { database: { reason, message: withLink(message, reason) } };
}

/**
 * Whether the StatefulSet controller has failed to create a pod: otherwise its status counts the pods that it has just
 * created.
 */
function lacksPods(statefulSet: StatefulSet): boolean {
  const { observedGeneration, replicas = 0 } = statefulSet.status ?? {};
  return observedGeneration === statefulSet.metadata.generation && replicas < rolloutOf(statefulSet).desired;
}

const createdMs = ({ metadata }: StatefulSet): number => Date.parse(metadata.creationTimestamp);

/**
 * The StatefulSet that runs the database.
 *
 * @param existing the stored StatefulSet, if there is one. Its claim templates and its serviceName are immutable, so
 *   the manifest repeats them. A claim that is created with an earlier size grows like any other.
 */
export function statefulSetOf(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  existing: StatefulSet | undefined,
  podDefaults: PodDefaults,
): Child<StatefulSet> {
  const { database } = spec;
  const { replicas, port, dataPath, serviceName } = database;
  return {
    metadata: childMetadata(bookStore, statefulSetKey(bookStore), 'database'),
    spec: {
      replicas,
      serviceName: existing?.spec?.serviceName ?? serviceName,
      // The databases are independent, so they need no order. With OrderedReady, the StatefulSet controller would wait
      // for a pod with a wrong image even after the image is corrected.
      podManagementPolicy: 'Parallel',
      selector: { matchLabels: selectorLabels(bookStore, 'database') },
      // The StatefulSet controller deletes no claim: see reclaim.ts.
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
      template: {
        metadata: podMetadataFor(bookStore, 'database', spec, podDefaults),
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

/**
 * Contains the API server's defaults: the list is atomic, so without them each restart of the operator would cost an
 * apply.
 */
const claimTemplate = ({ metadata }: BookStore, { size, storageClassName }: DatabaseSpec) => ({
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
function databaseServiceOf(bookStore: BookStore, { database }: SpecWithDefaults): Child<Service> {
  const { port } = database;
  return {
    metadata: childMetadata(bookStore, databaseServiceKey(bookStore), 'database'),
    spec: {
      clusterIP: 'None',
      selector: selectorLabels(bookStore, 'database'),
      ports: [{ name: 'database', protocol: 'TCP', port, targetPort: port }],
    },
  };
}
