import { controllerOf } from '@echoperator/runtime';
import { compareQuantities, refusedOutcome } from '@echoperator/runtime/controller';
import type { PersistentVolumeClaim } from '@echoperator/runtime/kinds';
import {
  capacityOf,
  describeGrowth,
  hasCapacity,
  isBound,
  isForeign,
  isLost,
  mayResize,
  type RefusedClaim,
  type RequestPatches,
  requestOf,
} from './claims.ts';
import { type DatabaseSpec, type SpecWithDefaults, statefulSetKey } from './desired.ts';
import type { BookStore } from './kind.ts';
import { volumeReasons, withLink } from './reasons.ts';
import { type ClaimProgress, pendingRestarts, type RestartResult } from './restart.ts';
import { type ComponentOutcome, firstOf, type VolumeOutcome } from './status.ts';

/** The outcome if this reconcile does not get as far as the claims. */
export function volumesNotChecked(bookStore: BookStore, { message }: Pick<ComponentOutcome, 'message'>): VolumeOutcome {
  const { dbSize = '(missing)' } = bookStore.spec?.bookDB ?? {};
  return { reason: 'VolumesNotChecked', message: `the volumes are not checked against dbSize ${dbSize}: ${message}` };
}

/** The input of {@link volumeOutcome}. */
export interface VolumeObservation {
  /** The claims within the replicas, whoever controls them. */
  readonly claims: readonly PersistentVolumeClaim[];
  readonly refusals?: RequestPatches['refusals'];
  readonly removedReplicaRefusals?: RequestPatches['removedReplicaRefusals'];
  readonly restart?: RestartResult;
}

/**
 * The outcome for the volumes. Its message names the first claims that are too small, and those that the operator does
 * not grow.
 */
export function volumeOutcome(
  bookStore: BookStore,
  { database }: SpecWithDefaults,
  { claims, refusals = [], removedReplicaRefusals = [], restart = { growing: [] } }: VolumeObservation,
): VolumeOutcome {
  const refused = refusals.map((each) => refusalOutcome(each, database.size));
  const lost = claims.filter((claim) => mayResize(claim) && isLost(claim));
  const growth = growthOutcome(restart);
  const reason = refused[0]?.reason ?? (lost.length > 0 ? 'VolumeLost' : growth.reason);
  const messages = [
    ...describeFirst('claim', refused, ({ message }) => message),
    ...describeFirst('claim', lost, lostMessage),
    ...growth.messages,
    ...(reason === 'VolumesSettled' ? settledMessages(bookStore, database, claims) : []),
    ...describeFirst('claim', claims, (claim) => skippedMessage(claim, database.size)),
    ...describeFirst('claim', removedReplicaRefusals, (each) => removedReplicaMessage(each, database.size)),
  ];
  // Of the removed replicas nothing but the refusal asks for an action.
  const isRefusedOnly = removedReplicaRefusals.length > 0 && volumeReasons[reason].event !== 'Warning';
  const message = withLink(messages.join('; '), isRefusedOnly ? 'ResizeRefused' : reason);
  const isAnyGrowing = volumeReasons[growth.reason].resizing === 'True';
  return { reason, message, ...(reason !== growth.reason && isAnyGrowing && { status: 'True' }) };
}

interface GrowthOutcome {
  readonly reason: VolumeOutcome['reason'];
  readonly messages: readonly string[];
}

function growthOutcome({ growing, waitsFor, error }: RestartResult): GrowthOutcome {
  const failing = growing.filter(isFailing);
  const waiting = growing.filter((claim) => !isFailing(claim));
  const waitingForKubelet = waiting.filter(({ state }) => state === 'fileSystem');
  const waitingForDriver = waiting.filter(({ state }) => state === 'driver');
  const messages = [...describeFirst('claim', failing, failureMessage)];
  if (waitingForKubelet[0] !== undefined) {
    const claims = firstOf('claim', waitingForKubelet.map(describeGrowth)).join(', ');
    messages.push(`waiting for the kubelet to grow the file system of claim ${claims}`);
  }
  messages.push(...describeFirst('pod', growing, podMessage));
  const [next] = pendingRestarts(growing);
  if (error !== undefined) {
    messages.push(`the operator cannot restart pods: ${refusedOutcome(error).message}`);
  } else if (next !== undefined) {
    const condition = waitsFor === undefined ? '' : `, and not before ${waitsFor}`;
    messages.push(`the operator restarts pod ${next.podName} once, not before ${deadline(next.step)}${condition}`);
  }
  if (waitingForDriver[0] !== undefined) {
    const claims = firstOf('claim', waitingForDriver.map(describeGrowth)).join(', ');
    messages.push(`waiting for the storage driver to grow claim ${claims}`);
  }
  if (failing.length > 0) return { reason: 'ResizeFailing', messages };
  if (waitingForKubelet.length > 0) return { reason: 'FileSystemResizePending', messages };
  return { reason: waitingForDriver.length > 0 ? 'ClaimsGrowing' : 'VolumesSettled', messages };
}

const isFailing = ({ error, step }: ClaimProgress): boolean => error !== undefined || step?.type === 'failed';

/** Everything about a claim that fails to grow, and the pod's part in it. */
function failureMessage(claim: ClaimProgress): string {
  const { podName, error, state, step } = claim;
  const failure =
    error === undefined
      ? `the file system of claim ${describeGrowth(claim)} was not grown`
      : `growing claim ${describeGrowth(claim)} fails: ${error}`;
  if (state === 'nodeInfeasible') {
    return `${failure}; the operator does not restart pod ${podName}: its node cannot grow the volume`;
  }
  if (step?.type !== 'failed' && step?.type !== 'createdAfterGrowth') return failure;
  return `${failure}; pod ${podName} was created after the volume had grown, so the operator does not restart it`;
}

/** Why the operator does not restart the pod of a pending file system now. */
function podMessage(claim: ClaimProgress): string | undefined {
  const { podName, step } = claim;
  if (step?.type === 'absent') return `pod ${podName} does not exist, so the kubelet cannot grow the file system`;
  if (step?.type === 'notRunning') return `pod ${podName} is not running, so the kubelet cannot grow the file system`;
  if (step?.type === 'ending') {
    return `waiting for pod ${podName} to end: its volume is mounted again when its next pod starts`;
  }
  if (step?.type !== 'createdAfterGrowth' || isFailing(claim)) return undefined;
  return `pod ${podName} was created after the volume had grown: if its file system has not grown by ${deadline(step)}, the reason becomes ResizeFailing`;
}

const deadline = ({ dueMs }: { readonly dueMs: number }): string => `${timeOf(dueMs)} (bookDB.resizeRestartAfter)`;

/** The last time that a Date can hold. `resizeRestartAfter` may be longer. */
const maxTimeMs = 8.64e15;

const timeOf = (ms: number): string => new Date(Math.min(ms, maxTimeMs)).toISOString().replace(/\.\d+Z$/, 'Z');

const lostMessage = ({ metadata, spec }: PersistentVolumeClaim): string =>
  `claim ${metadata.name} is Lost: PersistentVolume ${spec?.volumeName} does not exist`;

/** The messages if no volume is known to be too small. */
function settledMessages(
  bookStore: BookStore,
  { replicas, size }: DatabaseSpec,
  claims: readonly PersistentVolumeClaim[],
): readonly string[] {
  if (replicas === 0) {
    return ['bookDB.replicas is 0: no volume is in use. Claims of removed replicas may still grow'];
  }
  if (claims.length === 0) return [`StatefulSet ${statefulSetKey(bookStore).name} has no claim yet`];
  const largeEnough = claims.filter((claim) => mayResize(claim) && hasCapacity(claim, size));
  if (largeEnough.length === 0) return [];
  const sizes = largeEnough.map((claim) => {
    // The driver may still try to provide a size that an earlier BookStore of this name asked for.
    const requests = hasCapacity(claim, requestOf(claim)) ? '' : ` and requests ${requestOf(claim)}`;
    return `claim ${claim.metadata.name} has ${capacityOf(claim)}${requests}`;
  });
  return [`${firstOf('claim', sizes).join(', ')}, and dbSize is ${size}`];
}

/** Why the operator does not grow a claim within the replicas. Undefined if it does. */
function skippedMessage(claim: PersistentVolumeClaim, size: string): string | undefined {
  const { name, deletionTimestamp } = claim.metadata;
  if (deletionTimestamp !== undefined) return `claim ${name} is being deleted and does not grow`;
  const controller = controllerOf(claim);
  if (controller !== undefined && isForeign(claim)) {
    return `claim ${name} is controlled by ${controller.kind} ${controller.name} and does not grow`;
  }
  if (isBound(claim) || isLost(claim)) return undefined;
  const { phase = 'Pending' } = claim.status ?? {};
  const growth =
    compareQuantities(requestOf(claim), size) < 0
      ? `; when it has one, it grows from ${requestOf(claim)} to ${size}`
      : '';
  return `claim ${name} is ${phase} and has no volume${growth}`;
}

/** A description is a sentence or two, so a message has fewer of them than names. */
function describeFirst<T>(
  noun: string,
  items: readonly T[],
  describe: (item: T) => string | undefined,
): readonly string[] {
  const descriptions = items.flatMap((item) => describe(item) ?? []);
  return firstOf(noun, descriptions, 3);
}

/** Part of the message of the admission plugin PersistentVolumeClaimResize. */
const cannotResizeMessage = 'must support resize';

function refusalOutcome(refused: RefusedClaim, size: string): VolumeOutcome {
  const { claim, error } = refused;
  const problem = cannotSetRequest(claim, size);
  if (error?.serverMessage.includes(cannotResizeMessage) !== true) {
    return { reason: 'ResizeRefused', message: `${problem}: ${responseTo(refused)}` };
  }
  const { storageClassName = '' } = claim.spec ?? {};
  const cause =
    storageClassName === ''
      ? 'the claim has no StorageClass'
      : `StorageClass ${storageClassName} does not have allowVolumeExpansion: true or does not exist`;
  return { reason: 'StorageClassCannotGrow', message: `${problem}: ${cause}: ${responseTo(refused)}` };
}

/**
 * A refusal for a removed replica causes no retry with backoff: the next reconcile, at the latest the resync, tries
 * again.
 */
const removedReplicaMessage = (refused: RefusedClaim, size: string): string =>
  `${cannotSetRequest(refused.claim, size)}, whose replica was removed: ${responseTo(refused)}`;

const responseTo = ({ claim, error }: RefusedClaim): string =>
  error === undefined
    ? `the API server accepted the new request, but the claim still requests ${requestOf(claim)}`
    : `the API server says: ${error.serverMessage}`;

/** True if the claim requests more than `dbSize`. */
const mustLower = (claim: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(size, requestOf(claim)) < 0;

/** For example `the request of claim data-shop-db-0 (capacity 1Gi) cannot be raised from 1Gi to 2Gi`. */
const cannotSetRequest = (claim: PersistentVolumeClaim, size: string): string =>
  `the request of claim ${claim.metadata.name} (capacity ${capacityOf(claim)}) cannot be ${mustLower(claim, size) ? 'lowered' : 'raised'} from ${requestOf(claim)} to ${size}`;
