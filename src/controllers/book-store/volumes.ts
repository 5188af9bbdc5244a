import { BookStore } from '../../api/index.ts';
import { type ApiError, groupOf, isNotFound, isRefusal } from '../../runtime/client/index.ts';
import { compareQuantities, isCurrent } from '../../runtime/controller/index.ts';
import {
  type Client,
  controllerOf,
  deleteIfPresent,
  type EventRecorder,
  isControlledBy,
  type KubeObject,
  keyOf,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, Pod, StatefulSet } from '../../runtime/kinds/index.ts';
import { isReady } from '../pods.ts';
import { isInvalidField, serverMessage } from '../refusal.ts';
import { type Settings, statefulSetKey, volumeName } from './desired.ts';
import {
  type ComponentOutcome,
  kubectl,
  listed,
  rolloutOf,
  type VolumeOutcome,
  volumeResizingStatus,
} from './status.ts';

/** The StatefulSet controller writes ordinals without leading zeros. */
const claimName = new RegExp(`^${volumeName}-(.+)-(0|[1-9]\\d{0,8})$`);

/** The StatefulSet whose pod uses a claim. It follows from the name of the claim, whoever created that. */
export function statefulSetOfClaim(claim: PersistentVolumeClaim): ObjectKey | undefined {
  const [, name] = claimName.exec(claim.metadata.name) ?? [];
  return name === undefined ? undefined : { ...keyOf(claim), name };
}

/** The ordinal of the pod that uses the claim. */
export const ordinalOf = ({ metadata }: KubeObject): number => Number(claimName.exec(metadata.name)?.[2]);

/** True if the claim has a controller other than the StatefulSet in its name. */
export function isForeign(claim: PersistentVolumeClaim): boolean {
  const controller = controllerOf(claim);
  if (controller === undefined) return false;
  const { apiVersion, kind, name } = controller;
  const isStatefulSet = groupOf(apiVersion) === StatefulSet.group && kind === StatefulSet.kind;
  return !isStatefulSet || name !== statefulSetOfClaim(claim)?.name;
}

/** True if the operator grows the claim. The restart of its pod would complete the deletion of a claim that is being deleted. */
const isGrown = (claim: PersistentVolumeClaim): boolean =>
  claim.metadata.deletionTimestamp === undefined && !isForeign(claim);

/** The claims of the pods that the spec asks for. The other claims belong to pods that a scale-down removed. */
export const claimsWithinReplicas = (
  claims: readonly PersistentVolumeClaim[],
  { database }: Settings,
): readonly PersistentVolumeClaim[] => claims.filter((claim) => ordinalOf(claim) < database.replicas);

const requestOf = ({ spec }: PersistentVolumeClaim): string => spec?.resources?.requests?.storage ?? '0';

const capacityOf = ({ status }: PersistentVolumeClaim): string => status?.capacity?.storage ?? '0';

/** True if the volume has at least this size, whatever the claim requests. */
const hasCapacity = (claim: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(capacityOf(claim), size) >= 0;

const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

/** True if the PersistentVolume that the claim was bound to does not exist. The claim has no capacity then. */
const isLost = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Lost';

const wasBound = (claim: PersistentVolumeClaim): boolean => isBound(claim) || isLost(claim);

/** A claim whose request the API server refused to change. */
interface RefusedClaim {
  readonly claim: PersistentVolumeClaim;
  readonly error: ApiError;
}

/** The result of {@link setClaimRequests}. */
export interface ResizeResult {
  /** All claims after the patches. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** The refusals for claims within the replicas. */
  readonly refusals: readonly RefusedClaim[];
  /** The refusals for claims of removed replicas. The status reports them, but they do not make the BookStore unready. */
  readonly removedReplicaRefusals: readonly RefusedClaim[];
}

/**
 * Sets the request of each claim whose volume is smaller than `dbSize` to `dbSize`. This also lowers a larger request (KEP-1790), to undo
 * a size that the storage cannot provide.
 *
 * Patches the claims instead of applying them, because the StatefulSet controller created them. Each patch has the uid and the
 * resourceVersion as preconditions. Skips claims without a volume, because the API server does not let them grow, and those that are
 * being deleted or another controller's.
 *
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function setClaimRequests(
  client: Client,
  bookStore: BookStore,
  { database }: Settings,
  claims: readonly PersistentVolumeClaim[],
): Promise<ResizeResult> {
  const patched: PersistentVolumeClaim[] = [];
  const refusals: RefusedClaim[] = [];
  for (const claim of claims) {
    try {
      patched.push(await setRequest(client, bookStore, claim, database.size));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      patched.push(claim);
      refusals.push({ claim, error });
    }
  }
  const isWithinReplicas = ({ claim }: RefusedClaim): boolean => ordinalOf(claim) < database.replicas;
  return {
    claims: patched,
    refusals: refusals.filter(isWithinReplicas),
    removedReplicaRefusals: refusals.filter((refusal) => !isWithinReplicas(refusal)),
  };
}

async function setRequest(
  client: Client,
  bookStore: BookStore,
  claim: PersistentVolumeClaim,
  size: string,
): Promise<PersistentVolumeClaim> {
  if (!isGrown(claim) || !isBound(claim) || compareQuantities(requestOf(claim), size) === 0) return claim;
  // The volume may be larger than its request. And a request may only shrink if it stays above the capacity (KEP-1790).
  if (hasCapacity(claim, size)) return claim;
  // A volume never shrinks, and the cached BookStore may be an earlier one of this name with another size: read it first.
  if (!(await isCurrent(client, BookStore, bookStore))) return claim;
  const { uid, resourceVersion } = claim.metadata;
  const body = { metadata: { uid, resourceVersion }, spec: { resources: { requests: { storage: size } } } };
  return client.patch(PersistentVolumeClaim, keyOf(claim), { type: 'merge', body });
}

/** A volume that has grown, but whose file system has not. */
export interface FileSystemResize {
  readonly claim: string;
  readonly ordinal: number;
  /** The size of the file system. */
  readonly capacity: string;
  /** When the condition became true, in milliseconds since 1970. 0 if unknown: then the pod is not restarted. */
  readonly sinceMs: number;
}

/** A volume that is smaller than `dbSize`. */
interface SmallVolume {
  readonly claim: string;
  readonly capacity: string;
}

/** The progress of the growing volumes. */
export interface ResizeProgress {
  /** Excludes claims that have no volume yet. */
  readonly unfinished: readonly SmallVolume[];
  /** Those of the unfinished volumes whose file systems the kubelet has to grow, and still may. */
  readonly fileSystems: readonly FileSystemResize[];
  /** Those of the unfinished volumes that fail to grow or are lost, with the message of external-resizer or the kubelet. */
  readonly failures: readonly (SmallVolume & { readonly message: string })[];
}

/**
 * The types of the conditions that report an error. If a retry of external-resizer succeeds, it leaves its earlier error beside
 * `FileSystemResizePending` (`markForPendingNodeExpansion`) until the kubelet has finished.
 */
const errorConditionsOf = (claim: PersistentVolumeClaim): readonly string[] =>
  resizeStatusOf(claim).startsWith('NodeResize') ? ['NodeResizeError'] : ['ControllerResizeError', 'NodeResizeError'];

/**
 * The progress of the claims according to external-resizer and the kubelet. `status.capacity` is the size that the pod sees.
 * `FileSystemResizePending` is True from when the volume has grown until the kubelet has grown the file system. If the driver
 * supports it, the kubelet does that within seconds and while the pod runs (k8s.io/kubernetes/pkg/volume/util/resize_util.go).
 */
export function resizeProgressOf(claims: readonly PersistentVolumeClaim[], size: string): ResizeProgress {
  const unfinished = claims.filter((claim) => isGrown(claim) && wasBound(claim) && !hasCapacity(claim, size));
  return {
    unfinished: unfinished.map(smallVolume),
    fileSystems: unfinished.flatMap((claim) => {
      const condition = trueCondition(claim, ['FileSystemResizePending']);
      if (condition === undefined || isInfeasible(claim) || isLost(claim)) return [];
      const sinceMs = Date.parse(condition.lastTransitionTime ?? '') || 0;
      return [{ ...smallVolume(claim), ordinal: ordinalOf(claim), sinceMs }];
    }),
    failures: unfinished.flatMap((claim) => {
      const message = failureOf(claim);
      return message === undefined ? [] : [{ ...smallVolume(claim), message }];
    }),
  };
}

function failureOf(claim: PersistentVolumeClaim): string | undefined {
  if (isLost(claim)) {
    return `PersistentVolume ${claim.spec?.volumeName} does not exist any more. Restore it. If nobody needs its data, delete the claim and then the pod instead`;
  }
  const condition = trueCondition(claim, errorConditionsOf(claim));
  return condition && (condition.message || condition.type);
}

/** Which part of the growth is under way or has failed, for example `NodeResizePending`. Empty before Kubernetes 1.32. */
const resizeStatusOf = ({ status }: PersistentVolumeClaim): string => status?.allocatedResourceStatuses?.storage ?? '';

/**
 * True if the driver cannot grow the volume on its node: the kubelet does not try again, not even when it mounts the volume
 * (`runPreCheck` in node_expander.go), until external-resizer has reset the status. Any other `NodeResizeError` may be of a driver
 * that grows a file system only at mount.
 */
const isInfeasible = (claim: PersistentVolumeClaim): boolean => resizeStatusOf(claim) === 'NodeResizeInfeasible';

const smallVolume = (claim: PersistentVolumeClaim): SmallVolume => ({
  claim: claim.metadata.name,
  capacity: capacityOf(claim),
});

const trueCondition = ({ status }: PersistentVolumeClaim, types: readonly string[]) =>
  status?.conditions?.find((condition) => condition.status === 'True' && types.includes(condition.type));

/** The minimum of `resizeRestartAfter`: a pod needs time to start and to mount its volume. */
const minRestartAfterMs = 1000;

/** What {@link restartPodsForFileSystemResize} needs. */
interface RestartContext extends Pick<ReconcileContext, 'client' | 'log'> {
  readonly pods: Pick<ReadonlyStore<Pod>, 'byOwner'>;
  readonly events: EventRecorder;
  /** What every restart waits for. Undefined if a pod may be restarted now. */
  readonly blockedUntil?: string | undefined;
}

/** The result of {@link restartPodsForFileSystemResize}. */
export interface RestartResult {
  /** The volumes that are mounted anew since they have grown, so that their file systems may still grow. */
  readonly remounted: readonly FileSystemResize[];
  /** The volumes whose file systems have not grown within `resizeRestartAfter` although they were mounted anew. */
  readonly failedAfterRestart: readonly FileSystemResize[];
  /** What the next restart waits for besides `resizeRestartAfter`, for example `pod shop-db-0 is ready`. */
  readonly blockedUntil?: string | undefined;
  /** When to check the file systems again. Undefined if no pod may have to be restarted. */
  readonly requeueAfterMs?: number | undefined;
  /** The refusal of a restart, or of a read before it. */
  readonly error?: ApiError;
}

/**
 * Restarts a pod whose file system has been pending for `resizeRestartAfter`: some drivers grow it only when the volume is
 * mounted. Restarts one pod at a time, and a ready one only if all pods of the StatefulSet are ready and current, so that at most one
 * database is down. Restarts a pod once per resize: if the pod started after the volume had grown, another restart would not help.
 *
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function restartPodsForFileSystemResize(
  { fileSystems }: ResizeProgress,
  statefulSet: StatefulSet,
  bookStore: BookStore,
  settings: Settings,
  context: RestartContext,
): Promise<RestartResult> {
  const found: Resizes = { remounted: [], failedAfterRestart: [] };
  try {
    return { ...found, ...(await restartNextPod(fileSystems, statefulSet, bookStore, settings, context, found)) };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { ...found, blockedUntil: `the API server allows ${error.request}: ${serverMessage(error)}`, error };
  }
}

/** The lists of {@link RestartResult} while they are filled. */
interface Resizes {
  readonly remounted: FileSystemResize[];
  readonly failedAfterRestart: FileSystemResize[];
}

async function restartNextPod(
  fileSystems: ResizeProgress['fileSystems'],
  statefulSet: StatefulSet,
  bookStore: BookStore,
  settings: Settings,
  context: RestartContext,
  { remounted, failedAfterRestart }: Resizes,
): Promise<Pick<RestartResult, 'blockedUntil' | 'requeueAfterMs'>> {
  const { client, log, events } = context;
  const due: { fileSystem: FileSystemResize; pod: ObjectKey; uid: string; isPodReady: boolean }[] = [];
  const delaysMs: number[] = [];
  let { blockedUntil } = context;
  for (const fileSystem of fileSystems) {
    const pod = { ...keyOf(statefulSet), name: `${statefulSet.metadata.name}-${fileSystem.ordinal}` };
    const step = await nextStep(client, settings, statefulSet, fileSystem, pod);
    if (step.type === 'restart') due.push({ fileSystem, pod, ...step });
    if (step.type === 'remounted') remounted.push(fileSystem);
    if (step.type === 'failed') failedAfterRestart.push(fileSystem);
    // The event of the pod's readiness enqueues the key.
    if ((step.type === 'remounted' || step.type === 'failed') && !step.isPodReady)
      blockedUntil ??= `pod ${pod.name} is ready`;
    if (step.type === 'wait' || step.type === 'remounted') delaysMs.push(step.delayMs);
  }
  // The restart of a pod that is not ready takes no database down, so it waits for no other pod. Perhaps its volume is full.
  const next = due.find(({ isPodReady }) => !isPodReady) ?? due[0];
  if (next?.isPodReady === true && !areAllReady(statefulSet, context)) {
    blockedUntil ??= `all pods of StatefulSet ${statefulSet.metadata.name} are ready and have the current template`;
  }
  if (next !== undefined) delaysMs.push(restartAfterMs(settings));
  const isBlocked = next?.isPodReady === false ? context.blockedUntil !== undefined : blockedUntil !== undefined;
  if (next !== undefined && !isBlocked) {
    const { fileSystem, pod, uid } = next;
    if (await deleteIfPresent(client, Pod, pod, { uid })) {
      const change = describeGrowth(fileSystem, settings);
      const note = `restarted pod ${pod.name}: while it ran, the file system of claim ${change} was not grown`;
      log.info({ pod: pod.name }, 'restarted a pod so that its file system grows');
      events.record(BookStore, bookStore, { type: 'Normal', reason: 'PodRestarted', action: 'Restart', note });
    }
    remounted.push(fileSystem);
    blockedUntil = `pod ${pod.name} is ready`;
  }
  const requeueAfterMs = delaysMs.length === 0 ? undefined : Math.min(...delaysMs);
  return { blockedUntil, requeueAfterMs };
}

/** Counts the pods too: the status of the StatefulSet may lag behind a pod that has just ended. */
function areAllReady(statefulSet: StatefulSet, { pods }: RestartContext): boolean {
  const { desired, isComplete } = rolloutOf(statefulSet);
  const ready = [...pods.byOwner(statefulSet.metadata.uid)].filter(
    (pod) => pod.metadata.deletionTimestamp === undefined && isReady(pod),
  );
  return isComplete && ready.length >= desired;
}

const restartAfterMs = ({ database }: Settings): number => Math.max(database.resizeRestartAfterMs, minRestartAfterMs);

type NextStep =
  | { readonly type: 'nothing' }
  /** `resizeRestartAfter` has not passed. */
  | { readonly type: 'wait'; readonly delayMs: number }
  | { readonly type: 'restart'; readonly uid: string; readonly isPodReady: boolean }
  /** The pod was created after the volume had grown, or it does not run. */
  | { readonly type: 'remounted'; readonly delayMs: number; readonly isPodReady: boolean }
  | { readonly type: 'failed'; readonly isPodReady: boolean };

/** Decides what to do about a volume whose file system has not grown. Reads the claim and the pod from the API server first. */
async function nextStep(
  client: Client,
  settings: Settings,
  statefulSet: StatefulSet,
  { claim, sinceMs }: FileSystemResize,
  podKey: ObjectKey,
): Promise<NextStep> {
  const nowMs = Date.now();
  const waitMs = restartAfterMs(settings);
  const notRunning: NextStep = { type: 'remounted', delayMs: waitMs, isPodReady: false };
  if (nowMs < sinceMs + waitMs) return { type: 'wait', delayMs: sinceMs + waitMs - nowMs };
  try {
    const live = await client.get(PersistentVolumeClaim, { ...podKey, name: claim });
    const [pending] = resizeProgressOf([live], settings.database.size).fileSystems;
    if (pending === undefined || pending.sinceMs === 0) return { type: 'nothing' };
    if (nowMs < pending.sinceMs + waitMs) return { type: 'wait', delayMs: pending.sinceMs + waitMs - nowMs };
    const pod = await client.get(Pod, podKey);
    const isRunning = pod.metadata.deletionTimestamp === undefined && pod.status?.phase === 'Running';
    if (!isRunning || !isControlledBy(pod, statefulSet)) return notRunning;
    // Not startTime, which the node's clock writes: if that clock is behind, the pod would be restarted repeatedly.
    const createdMs = Date.parse(pod.metadata.creationTimestamp);
    const isPodReady = isReady(pod);
    if (createdMs <= pending.sinceMs) return { type: 'restart', uid: pod.metadata.uid, isPodReady };
    const delayMs = createdMs + waitMs - nowMs;
    return delayMs > 0 ? { type: 'remounted', delayMs, isPodReady } : { type: 'failed', isPodReady };
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return notRunning;
  }
}

/** The outcome if this reconcile does not get as far as the claims. */
export function volumesNotChecked(bookStore: BookStore, { message }: Pick<ComponentOutcome, 'message'>): VolumeOutcome {
  const { dbSize = '(missing)' } = bookStore.spec?.bookDB ?? {};
  const sizes = `against dbSize ${dbSize} (${kubectl(bookStore, 'get pvc')})`;
  return { reason: 'VolumesNotChecked', message: `the volumes are not checked ${sizes}: ${message}` };
}

/** The input of {@link volumeOutcome}. */
export interface VolumeObservation {
  /** The claims within the replicas, whoever controls them. */
  readonly claims: readonly PersistentVolumeClaim[];
  readonly progress: ResizeProgress;
  readonly refusals?: ResizeResult['refusals'];
  readonly removedReplicaRefusals?: ResizeResult['removedReplicaRefusals'];
  readonly restart?: Partial<RestartResult>;
}

/** The outcome for the volumes. Its message names the first claims that are too small, and those that the operator does not grow. */
export function volumeOutcome(
  bookStore: BookStore,
  settings: Settings,
  { claims, progress, refusals = [], removedReplicaRefusals = [], restart = {} }: VolumeObservation,
): VolumeOutcome {
  const refused = refusals.map((each) => refusalOutcome(each, bookStore, settings));
  const isRefused = ({ claim }: SmallVolume) => refusals.some((each) => each.claim.metadata.name === claim);
  const unfinished = progress.unfinished.filter((volume) => !isRefused(volume));
  const growth = progressOutcome(bookStore, settings, { ...progress, unfinished }, restart);
  const reason = refused[0]?.reason ?? growth.reason;
  const skipped = claims.flatMap((claim) => skippedMessage(claim, bookStore, settings) ?? []);
  const all = [
    ...firstOf(refused.map(({ message }) => message)),
    ...growth.messages,
    ...(reason === 'VolumesSettled' ? settledMessages(bookStore, settings, claims) : []),
    ...firstOf(skipped),
    ...firstOf(removedReplicaRefusals.map((each) => removedReplicaMessage(each, settings))),
  ];
  const othersGrow = reason !== growth.reason && volumeResizingStatus[growth.reason] === 'True';
  return { reason, message: all.join('; '), ...(othersGrow && { status: 'True' }) };
}

interface VolumeMessages {
  readonly reason: VolumeOutcome['reason'];
  readonly messages: readonly string[];
}

function progressOutcome(
  bookStore: BookStore,
  settings: Settings,
  progress: ResizeProgress,
  restart: Partial<RestartResult>,
): VolumeMessages {
  const { unfinished, fileSystems, failures } = progress;
  const describe = (volumes: readonly SmallVolume[]): string =>
    listed(
      'claims',
      volumes.map((volume) => describeGrowth(volume, settings)),
    );
  const failed = [
    ...failures.map(
      ({ message, ...volume }) =>
        `growing claim ${describeGrowth(volume, settings)} fails (${kubectl(bookStore, `describe pvc ${volume.claim}`)}): ${message}`,
    ),
    ...(restart.failedAfterRestart ?? []).map((fileSystem) => {
      const pod = podNameOf(bookStore, fileSystem);
      const growth = describeGrowth(fileSystem, settings);
      return `the file system of claim ${growth} was not grown although pod ${pod} started after the volume had grown, so the operator does not restart it again: see its Events (${kubectl(bookStore, `describe pod ${pod}`)}) and the log of the storage driver on its node`;
    }),
  ];
  const restarts = restartMessages(bookStore, settings, progress, restart);
  if (failed.length > 0) return { reason: 'ResizeFailing', messages: [...firstOf(failed), ...restarts] };
  const waitingForDriver = unfinished.filter(({ claim }) => !fileSystems.some((each) => each.claim === claim));
  const driver =
    waitingForDriver[0] === undefined
      ? []
      : [
          `waiting for the storage driver to grow claim ${describe(waitingForDriver)}; its Events may say why it does not (${kubectl(bookStore, `describe pvc ${waitingForDriver[0].claim}`)})`,
        ];
  if (fileSystems.length === 0) {
    return { reason: driver.length === 0 ? 'VolumesSettled' : 'ClaimsGrowing', messages: driver };
  }
  const kubelet = `waiting for the kubelet to grow the file system of claim ${describe(fileSystems)} (${kubectl(bookStore, `describe pvc ${fileSystems[0]?.claim}`)})`;
  return { reason: 'FileSystemResizePending', messages: [kubelet, ...restarts, ...driver] };
}

/** Says which pod the operator restarts next, and which it does not restart again. */
function restartMessages(
  bookStore: BookStore,
  settings: Settings,
  { fileSystems }: ResizeProgress,
  { remounted = [], failedAfterRestart = [], blockedUntil }: Partial<RestartResult>,
): readonly string[] {
  const waitMs = restartAfterMs(settings);
  const next = fileSystems.find(
    (each) => each.sinceMs > 0 && !remounted.includes(each) && !failedAfterRestart.includes(each),
  );
  const pods = listed(
    'pods',
    remounted.map((each) => podNameOf(bookStore, each)),
  );
  const messages: string[] = [];
  if (pods !== '') {
    const wait = `${waitMs / 1000} s (bookDB.resizeRestartAfter) from the start of pod ${pods}`;
    messages.push(`the operator waits ${wait}, and does not restart it again`);
  }
  if (next !== undefined) {
    const time = `${timeOf(next.sinceMs + waitMs)} (bookDB.resizeRestartAfter)`;
    const condition = blockedUntil === undefined ? '' : `, and not before ${blockedUntil}`;
    messages.push(`the operator restarts pod ${podNameOf(bookStore, next)} once, not before ${time}${condition}`);
  }
  return messages;
}

/** The last time that a Date can hold. `resizeRestartAfter` may be longer. */
const maxTimeMs = 8.64e15;

const timeOf = (ms: number): string => new Date(Math.min(ms, maxTimeMs)).toISOString().replace(/\.\d+Z$/, 'Z');

const podNameOf = (bookStore: BookStore, { ordinal }: FileSystemResize): string =>
  `${statefulSetKey(bookStore).name}-${ordinal}`;

/** For example `data-shop-db-0 from 1Gi to 2Gi`. */
const describeGrowth = ({ claim, capacity }: SmallVolume, { database }: Settings): string =>
  `${claim} from ${capacity} to ${database.size}`;

/** The messages if no volume is known to be too small. */
function settledMessages(
  bookStore: BookStore,
  { database }: Settings,
  claims: readonly PersistentVolumeClaim[],
): readonly string[] {
  if (database.replicas === 0) return ['no claim is in use: bookDB.replicas is 0'];
  if (claims.length === 0) return [`StatefulSet ${statefulSetKey(bookStore).name} has no claim yet`];
  const grown = claims.filter((claim) => isGrown(claim) && hasCapacity(claim, database.size));
  if (grown.length === 0) return [];
  const sizes = grown.map((claim) => {
    // The driver may still try to provide a size that an earlier BookStore of this name asked for.
    const requests = hasCapacity(claim, requestOf(claim)) ? '' : ` and requests ${requestOf(claim)}`;
    return `claim ${claim.metadata.name} has ${capacityOf(claim)}${requests}`;
  });
  return [`${listed('claims', sizes)}, and dbSize is ${database.size}`];
}

/** Why the operator does not grow a claim within the replicas. Undefined if it does. */
function skippedMessage(
  claim: PersistentVolumeClaim,
  bookStore: BookStore,
  { database }: Settings,
): string | undefined {
  const { name, deletionTimestamp } = claim.metadata;
  if (deletionTimestamp !== undefined) return `claim ${name} is being deleted and does not grow`;
  const controller = controllerOf(claim);
  if (controller !== undefined && isForeign(claim)) {
    return `claim ${name} is controlled by ${controller.kind} ${controller.name} and does not grow`;
  }
  if (wasBound(claim)) return undefined;
  const { phase = 'Pending' } = claim.status ?? {};
  const growth =
    compareQuantities(requestOf(claim), database.size) < 0
      ? `; when it has one, it grows from ${requestOf(claim)} to ${database.size}`
      : '';
  return `claim ${name} is ${phase} and has no volume (${kubectl(bookStore, `describe pvc ${name}`)})${growth}`;
}

/** The most claims that a message describes in full. */
const maxDescribed = 3;

const firstOf = (messages: readonly string[]): readonly string[] =>
  messages.length <= maxDescribed
    ? messages
    : [...messages.slice(0, maxDescribed), `and ${messages.length - maxDescribed} more claims`];

/** Part of the message of the admission plugin PersistentVolumeClaimResize. */
const cannotResizeMessage = 'must support resize';

function refusalOutcome({ claim, error }: RefusedClaim, bookStore: BookStore, settings: Settings): VolumeOutcome {
  const refusal = serverMessage(error);
  const { storageClassName = '' } = claim.spec ?? {};
  let reason: VolumeOutcome['reason'] = 'ResizeRefused';
  let advice = `correct what the API server names: a quota (${kubectl(bookStore, 'describe resourcequota')}), a policy or a permission. The operator retries at least once a minute`;
  if (isLowered(claim, settings) && isInvalidField(error)) {
    advice = `that needs Kubernetes 1.32. Upgrade it, or create this BookStore again with dbSize ${capacityOf(claim)}, the present capacity`;
  } else if (refusal.includes(cannotResizeMessage)) {
    reason = 'StorageClassCannotGrow';
    advice =
      storageClassName === ''
        ? 'it has no StorageClass. Move its data to a claim with a StorageClass that allows it'
        : `StorageClass ${storageClassName} does not have allowVolumeExpansion: true or does not exist. If its driver can grow volumes, run kubectl patch storageclass ${storageClassName} --patch '{"allowVolumeExpansion":true}'`;
  }
  return { reason, message: `${cannotGrow(claim, settings)}: ${advice}. The API server says: ${refusal}` };
}

/** A refusal for a removed replica causes no retry with backoff: the next reconcile, at the latest the resync, tries again. */
const removedReplicaMessage = ({ claim, error }: RefusedClaim, settings: Settings): string =>
  `${cannotGrow(claim, settings)}: the operator retries at the next change or resync, because the replica was removed. The API server says: ${serverMessage(error)}`;

/** True if the claim requests more than `dbSize`. */
const isLowered = (claim: PersistentVolumeClaim, { database }: Settings): boolean =>
  compareQuantities(database.size, requestOf(claim)) < 0;

/** For example `claim data-shop-db-0 cannot grow from 1Gi to 2Gi`. */
const cannotGrow = (claim: PersistentVolumeClaim, settings: Settings): string =>
  `claim ${claim.metadata.name} cannot ${isLowered(claim, settings) ? 'lower its request' : 'grow'} from ${requestOf(claim)} to ${settings.database.size}`;
