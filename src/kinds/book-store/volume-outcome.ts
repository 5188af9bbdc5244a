import { controllerOf } from '@echoperator/runtime';
import { isInvalidField } from '@echoperator/runtime/client';
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
  podNameOf,
  type RefusedClaim,
  type RequestPatches,
  requestOf,
} from './claims.ts';
import { type DatabaseSpec, type SpecWithDefaults, statefulSetKey } from './desired.ts';
import { type BookStore, bookStorePage } from './kind.ts';
import { type ClaimProgress, pendingRestarts, type RestartResult } from './restart.ts';
import { type ComponentOutcome, firstOf, kubectlCommand, type VolumeOutcome, volumeReasons } from './status.ts';

/** The outcome if this reconcile does not get as far as the claims. */
export function volumesNotChecked(bookStore: BookStore, { message }: Pick<ComponentOutcome, 'message'>): VolumeOutcome {
  const { dbSize = '(missing)' } = bookStore.spec?.bookDB ?? {};
  const sizes = `against dbSize ${dbSize} (${kubectlCommand(bookStore, 'get pvc')})`;
  return { reason: 'VolumesNotChecked', message: `the volumes are not checked ${sizes}: ${message}` };
}

/** The input of {@link volumeOutcome}. */
export interface VolumeObservation {
  /** The claims within the replicas, whoever controls them. */
  readonly claims: readonly PersistentVolumeClaim[];
  readonly refusals?: RequestPatches['refusals'];
  readonly removedReplicaRefusals?: RequestPatches['removedReplicaRefusals'];
  readonly restart?: RestartResult;
}

/** The outcome for the volumes. Its message names the first claims that are too small, and those that the operator does not grow. */
export function volumeOutcome(
  bookStore: BookStore,
  { database }: SpecWithDefaults,
  { claims, refusals = [], removedReplicaRefusals = [], restart = { growing: [] } }: VolumeObservation,
): VolumeOutcome {
  const refused = refusals.map((each) => refusalOutcome(each, bookStore, database.size, refusals));
  const lost = claims.filter((claim) => mayResize(claim) && isLost(claim));
  const growth = growthOutcome(bookStore, restart);
  const reason = refused[0]?.reason ?? (lost.length > 0 ? 'VolumeLost' : growth.reason);
  const messages = [
    ...describeFirst('claim', refused, ({ message }) => message),
    ...describeFirst('claim', lost, (claim) => lostMessage(claim, bookStore)),
    ...growth.messages,
    ...(reason === 'VolumesSettled' ? settledMessages(bookStore, database, claims) : []),
    ...describeFirst('claim', claims, (claim) => skippedMessage(claim, bookStore, database.size)),
    ...describeFirst('claim', removedReplicaRefusals, (each) => removedReplicaMessage(each, bookStore, database.size)),
  ];
  const isAnyGrowing = volumeReasons[growth.reason].resizing === 'True';
  return { reason, message: messages.join('; '), ...(reason !== growth.reason && isAnyGrowing && { status: 'True' }) };
}

interface GrowthOutcome {
  readonly reason: VolumeOutcome['reason'];
  readonly messages: readonly string[];
}

function growthOutcome(bookStore: BookStore, { growing, waitsFor, error }: RestartResult): GrowthOutcome {
  const failing = growing.filter(isFailing);
  const waiting = growing.filter((claim) => !isFailing(claim));
  const waitingForKubelet = waiting.filter(({ state }) => state === 'fileSystem');
  const waitingForDriver = waiting.filter(({ state }) => state === 'driver');
  const messages = [...describeFirst('claim', failing, (claim) => failureMessage(claim, bookStore))];
  if (waitingForKubelet[0] !== undefined) {
    const claims = firstOf('claim', waitingForKubelet.map(describeGrowth)).join(', ');
    const command = describeClaim(waitingForKubelet[0], bookStore);
    messages.push(`waiting for the kubelet to grow the file system of claim ${claims} (${command})`);
  }
  messages.push(...describeFirst('pod', growing, (claim) => podMessage(claim, bookStore)));
  const [next] = pendingRestarts(growing);
  if (error !== undefined) {
    messages.push(`the operator cannot restart pods: ${refusedOutcome(error).message}`);
  } else if (next !== undefined) {
    const condition = waitsFor === undefined ? '' : `, and not before ${waitsFor}`;
    messages.push(`the operator restarts pod ${next.podName} once, not before ${deadline(next.step)}${condition}`);
  }
  if (waitingForDriver[0] !== undefined) {
    const claims = firstOf('claim', waitingForDriver.map(describeGrowth)).join(', ');
    const events = `the Events of claim ${waitingForDriver[0].claimName} may name the error (${describeClaim(waitingForDriver[0], bookStore)})`;
    messages.push(`waiting for the storage driver to grow claim ${claims}; ${events}`);
  }
  if (failing.length > 0) return { reason: 'ResizeFailing', messages };
  if (waitingForKubelet.length > 0) return { reason: 'FileSystemResizePending', messages };
  return { reason: waitingForDriver.length > 0 ? 'ClaimsGrowing' : 'VolumesSettled', messages };
}

const isFailing = ({ error, step }: ClaimProgress): boolean => error !== undefined || step?.type === 'failed';

/** Everything about a claim that fails to grow, and the pod's part in it. */
function failureMessage(claim: ClaimProgress, bookStore: BookStore): string {
  const { podName, error, state, step } = claim;
  const failure =
    error === undefined
      ? `the file system of claim ${describeGrowth(claim)} was not grown`
      : `growing claim ${describeGrowth(claim)} fails (${describeClaim(claim, bookStore)}): ${error}`;
  if (state === 'nodeInfeasible') {
    return `${failure}; the operator does not restart pod ${podName}: its node cannot grow the volume. See the log of the storage driver on that node`;
  }
  if (step?.type !== 'failed' && step?.type !== 'createdAfterGrowth') return failure;
  const events = kubectlCommand(bookStore, `describe pod ${podName}`);
  return `${failure}; pod ${podName} was created after the volume had grown, so the operator does not restart it: see its Events (${events}) and the log of the storage driver on its node`;
}

/** Why the operator does not restart the pod of a pending file system now. */
function podMessage(claim: ClaimProgress, bookStore: BookStore): string | undefined {
  const { podName, step } = claim;
  const command = kubectlCommand(bookStore, `describe pod ${podName}`);
  if (step?.type === 'absent') {
    const { name } = statefulSetKey(bookStore);
    const events = kubectlCommand(bookStore, `describe statefulset ${name}`);
    return `pod ${podName} does not exist, so the kubelet cannot grow the file system: see the Events of its StatefulSet (${events})`;
  }
  if (step?.type === 'notRunning') {
    return `pod ${podName} is not running, so the kubelet cannot grow the file system (${command})`;
  }
  if (step?.type === 'ending') {
    return `waiting for pod ${podName} to end: its volume is mounted again when its next pod starts (${command})`;
  }
  if (step?.type !== 'createdAfterGrowth' || isFailing(claim)) return undefined;
  return `pod ${podName} was created after the volume had grown: if its file system has not grown by ${deadline(step)}, the reason becomes ResizeFailing`;
}

const describeClaim = ({ claimName }: ClaimProgress, bookStore: BookStore): string =>
  kubectlCommand(bookStore, `describe pvc ${claimName}`);

const deadline = ({ dueMs }: { readonly dueMs: number }): string => `${timeOf(dueMs)} (bookDB.resizeRestartAfter)`;

/** The last time that a Date can hold. `resizeRestartAfter` may be longer. */
const maxTimeMs = 8.64e15;

const timeOf = (ms: number): string => new Date(Math.min(ms, maxTimeMs)).toISOString().replace(/\.\d+Z$/, 'Z');

function lostMessage({ metadata, spec }: PersistentVolumeClaim, bookStore: BookStore): string {
  const { name } = metadata;
  const commands = `run ${kubectlCommand(bookStore, `delete pvc ${name} --wait=false`)} and then ${kubectlCommand(bookStore, `delete pod ${podNameOf({ metadata })}`)}`;
  return `claim ${name} is Lost: PersistentVolume ${spec?.volumeName} does not exist. Restore it; or, if nobody needs its data, ${commands}`;
}

/** The messages if no volume is known to be too small. */
function settledMessages(
  bookStore: BookStore,
  { replicas, size }: DatabaseSpec,
  claims: readonly PersistentVolumeClaim[],
): readonly string[] {
  if (replicas === 0) {
    const command = kubectlCommand(bookStore, 'get pvc');
    return [`bookDB.replicas is 0: no volume is in use. Claims of removed replicas may still grow (${command})`];
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
function skippedMessage(claim: PersistentVolumeClaim, bookStore: BookStore, size: string): string | undefined {
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
  return `claim ${name} is ${phase} and has no volume (${kubectlCommand(bookStore, `describe pvc ${name}`)})${growth}`;
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

function refusalOutcome(
  refused: RefusedClaim,
  bookStore: BookStore,
  size: string,
  refusals: readonly RefusedClaim[],
): VolumeOutcome {
  const { claim, error } = refused;
  const { storageClassName = '' } = claim.spec ?? {};
  let reason: VolumeOutcome['reason'] = 'ResizeRefused';
  let advice = `correct what the API server names: a quota or a LimitRange (${kubectlCommand(bookStore, 'describe resourcequota,limitrange')}), a policy, a webhook or a permission`;
  if (error === undefined) {
    advice = 'correct the webhook or policy that changes it (kubectl get mutatingwebhookconfigurations)';
  } else if (mustLower(claim, size) && isInvalidField(error)) {
    // A larger dbSize would again lower the request of the claim with the smallest capacity.
    const smallest = refusals
      .filter((each) => mustLower(each.claim, size))
      .map((each) => capacityOf(each.claim))
      .reduce((one, other) => (compareQuantities(other, one) < 0 ? other : one), capacityOf(claim));
    advice = `upgrade the cluster to Kubernetes 1.32 or later; or set bookDB.reclaimPolicy to Retain, delete this BookStore and create it again with dbSize ${smallest}, the smallest present capacity (${bookStorePage}#growing-a-volume)`;
  } else if (error.serverMessage.includes(cannotResizeMessage)) {
    reason = 'StorageClassCannotGrow';
    advice =
      storageClassName === ''
        ? `the claim has no StorageClass. Move its data to a claim with a StorageClass that allows it (${bookStorePage}#moving-the-data-to-another-storageclass)`
        : `StorageClass ${storageClassName} does not have allowVolumeExpansion: true or does not exist. If it does not exist, create it again. If its driver can grow volumes, run kubectl patch storageclass ${storageClassName} --patch '{"allowVolumeExpansion":true}'; else move the data (${bookStorePage}#moving-the-data-to-another-storageclass)`;
  }
  const retry = 'The operator retries at least once a minute';
  return { reason, message: `${cannotSetRequest(claim, size)}: ${advice}. ${retry}. ${answerTo(refused)}` };
}

/** A refusal for a removed replica causes no retry with backoff: the next reconcile, at the latest the resync, tries again. */
function removedReplicaMessage(refused: RefusedClaim, bookStore: BookStore, size: string): string {
  const deletion = kubectlCommand(bookStore, `delete pvc ${refused.claim.metadata.name}`);
  return `${cannotSetRequest(refused.claim, size)}: correct the cause, or delete the claim if nobody needs its data (${deletion}). The operator retries at the next change or resync, because the replica was removed. ${answerTo(refused)}`;
}

const answerTo = ({ claim, error }: RefusedClaim): string =>
  error === undefined
    ? `The API server accepted the new request, but the claim still requests ${requestOf(claim)}`
    : `The API server says: ${error.serverMessage}`;

/** True if the claim requests more than `dbSize`. */
const mustLower = (claim: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(size, requestOf(claim)) < 0;

/** For example `the request of claim data-shop-db-0 (capacity 1Gi) cannot be raised from 1Gi to 2Gi`. */
const cannotSetRequest = (claim: PersistentVolumeClaim, size: string): string =>
  `the request of claim ${claim.metadata.name} (capacity ${capacityOf(claim)}) cannot be ${mustLower(claim, size) ? 'lowered' : 'raised'} from ${requestOf(claim)} to ${size}`;
