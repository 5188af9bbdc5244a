import type { BookStore } from '../../api/index.ts';
import { compareQuantities } from '../../runtime/controller/index.ts';
import { controllerOf } from '../../runtime/index.ts';
import type { PersistentVolumeClaim } from '../../runtime/kinds/index.ts';
import { isInvalidField, serverMessage } from '../refusal.ts';
import {
  capacityOf,
  describeGrowth,
  type FileSystemResize,
  hasCapacity,
  isForeign,
  isGrown,
  type RefusedClaim,
  type ResizeProgress,
  type ResizeResult,
  requestOf,
  type SmallVolume,
  wasBound,
} from './claims.ts';
import { type Settings, statefulSetKey } from './desired.ts';
import { type RestartResult, restartAfterMs } from './restart.ts';
import { type ComponentOutcome, kubectl, listed, type VolumeOutcome, volumeResizingStatus } from './status.ts';

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
