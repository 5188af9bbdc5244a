import type { BookStore } from '../../api/index.ts';
import { compareQuantities } from '../../runtime/controller/index.ts';
import { controllerOf } from '../../runtime/index.ts';
import type { PersistentVolumeClaim } from '../../runtime/kinds/index.ts';
import { isInvalidField, refusedOutcome, serverMessage } from '../refusal.ts';
import {
  capacityOf,
  describeGrowth,
  hasCapacity,
  isBound,
  isForeign,
  isLost,
  mayResize,
  ordinalOf,
  type PendingFileSystem,
  type RefusedClaim,
  type RequestPatches,
  type ResizeProgress,
  requestOf,
  resizeProgressOf,
} from './claims.ts';
import { type DatabaseSpec, type SpecWithDefaults, statefulSetKey } from './desired.ts';
import { type RestartResult, type RestartStep, restartAfterMs } from './restart.ts';
import {
  type ComponentOutcome,
  joinFirst,
  kubectlCommand,
  type VolumeOutcome,
  volumeResizingStatus,
} from './status.ts';

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
  { claims, refusals = [], removedReplicaRefusals = [], restart = { steps: [] } }: VolumeObservation,
): VolumeOutcome {
  const refused = refusals.map((each) => refusalOutcome(each, bookStore, database.size));
  const lost = claims.filter((claim) => mayResize(claim) && isLost(claim));
  const growth = growthOutcome(bookStore, database, resizeProgressOf(claims, database.size), restart);
  const reason = refused[0]?.reason ?? (lost.length > 0 ? 'VolumeLost' : growth.reason);
  const messages = [
    ...firstOf(refused.map(({ message }) => message)),
    ...firstOf(lost.map((claim) => lostMessage(claim, bookStore))),
    ...growth.messages,
    ...(reason === 'VolumesSettled' ? settledMessages(bookStore, database, claims) : []),
    ...firstOf(claims.flatMap((claim) => skippedMessage(claim, bookStore, database.size) ?? [])),
    ...firstOf(removedReplicaRefusals.map((each) => removedReplicaMessage(each, database.size))),
  ];
  const isAnyGrowing = volumeResizingStatus[growth.reason] === 'True';
  return { reason, message: messages.join('; '), ...(reason !== growth.reason && isAnyGrowing && { status: 'True' }) };
}

interface GrowthOutcome {
  readonly reason: VolumeOutcome['reason'];
  readonly messages: readonly string[];
}

function growthOutcome(
  bookStore: BookStore,
  database: DatabaseSpec,
  { growing, fileSystems, failures }: ResizeProgress,
  restart: RestartResult,
): GrowthOutcome {
  const failedSteps = restart.steps.filter(({ decision }) => decision.type === 'failed');
  const failing = [...failures, ...failedSteps.map(({ fileSystem }) => fileSystem)].map(({ claim }) => claim);
  const waitingForKubelet = fileSystems.filter(({ claim }) => !failing.includes(claim));
  const waitingForDriver = growing.filter(
    ({ claim }) => !failing.includes(claim) && !fileSystems.some((each) => each.claim === claim),
  );
  const describeClaim = ({ claim }: { readonly claim: string }) => kubectlCommand(bookStore, `describe pvc ${claim}`);
  const messages = [
    ...firstOf([
      ...failures.map(
        ({ message, ...volume }) =>
          `growing claim ${describeGrowth(volume)} fails (${describeClaim(volume)}): ${message}`,
      ),
      ...failedSteps.map((step) => failedStepMessage(step, bookStore)),
    ]),
  ];
  if (waitingForKubelet[0] !== undefined) {
    const claims = joinFirst('claims', waitingForKubelet.map(describeGrowth));
    const command = describeClaim(waitingForKubelet[0]);
    messages.push(`waiting for the kubelet to grow the file system of claim ${claims} (${command})`);
  }
  messages.push(...restartMessages(bookStore, database, fileSystems, restart));
  if (waitingForDriver[0] !== undefined) {
    const claims = joinFirst('claims', waitingForDriver.map(describeGrowth));
    const events = `the Events of claim ${waitingForDriver[0].claim} may name the error (${describeClaim(waitingForDriver[0])})`;
    messages.push(`waiting for the storage driver to grow claim ${claims}; ${events}`);
  }
  if (failing.length > 0) return { reason: 'ResizeFailing', messages };
  if (waitingForKubelet.length > 0) return { reason: 'FileSystemResizePending', messages };
  return { reason: waitingForDriver.length > 0 ? 'ClaimsGrowing' : 'VolumesSettled', messages };
}

function failedStepMessage({ fileSystem, pod }: RestartStep, bookStore: BookStore): string {
  const events = kubectlCommand(bookStore, `describe pod ${pod.name}`);
  return `the file system of claim ${describeGrowth(fileSystem)} was not grown although pod ${pod.name} was created after the volume had grown, so the operator does not restart it: see its Events (${events}) and the log of the storage driver on its node`;
}

/** Says which pod the operator restarts next, which it does not restart, and which are not running. */
function restartMessages(
  bookStore: BookStore,
  database: DatabaseSpec,
  fileSystems: readonly PendingFileSystem[],
  { steps, waitsFor, error }: RestartResult,
): readonly string[] {
  const waitMs = restartAfterMs(database);
  const podsWith = (type: RestartStep['decision']['type']) =>
    steps.filter(({ decision }) => decision.type === type).map(({ pod }) => pod.name);
  const messages: string[] = [];
  const notRunning = podsWith('notRunning');
  if (notRunning.length > 0) {
    const command = kubectlCommand(bookStore, `describe pod ${notRunning[0]}`);
    const names = joinFirst('pods', notRunning);
    const pods = notRunning.length === 1 ? `pod ${names} is` : `pods ${names} are`;
    messages.push(`${pods} not running, so the kubelet cannot grow the file system (${command})`);
  }
  const startedAfterGrowth = podsWith('startedAfterGrowth');
  if (startedAfterGrowth.length > 0) {
    const wait = `${waitMs / 1000} s (bookDB.resizeRestartAfter) from the creation of pod ${joinFirst('pods', startedAfterGrowth)}`;
    messages.push(
      `the operator waits ${wait}: restarting a pod that was created after the volume had grown would not help`,
    );
  }
  const next = fileSystems.find(({ claim, sinceMs }) => {
    const type = steps.find(({ fileSystem }) => fileSystem.claim === claim)?.decision.type;
    return sinceMs > 0 && (type === undefined || type === 'wait' || type === 'restart');
  });
  if (next !== undefined) {
    const pod = `${statefulSetKey(bookStore).name}-${next.ordinal}`;
    const time = `${timeOf(next.sinceMs + waitMs)} (bookDB.resizeRestartAfter)`;
    const condition = waitsFor === undefined ? '' : `, and not before ${waitsFor}`;
    messages.push(`the operator restarts pod ${pod} once, not before ${time}${condition}`);
  }
  if (error !== undefined) messages.push(refusedOutcome(error).message);
  return messages;
}

/** The last time that a Date can hold. `resizeRestartAfter` may be longer. */
const maxTimeMs = 8.64e15;

const timeOf = (ms: number): string => new Date(Math.min(ms, maxTimeMs)).toISOString().replace(/\.\d+Z$/, 'Z');

function lostMessage({ metadata, spec }: PersistentVolumeClaim, bookStore: BookStore): string {
  const { name } = metadata;
  const pod = `${statefulSetKey(bookStore).name}-${ordinalOf({ metadata })}`;
  const commands = `run ${kubectlCommand(bookStore, `delete pvc ${name} --wait=false`)} and then ${kubectlCommand(bookStore, `delete pod ${pod}`)}`;
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
  return [`${joinFirst('claims', sizes)}, and dbSize is ${size}`];
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

/** The most claims that a message describes in full. */
const maxDescribed = 3;

const firstOf = (messages: readonly string[]): readonly string[] =>
  messages.length <= maxDescribed
    ? messages
    : [...messages.slice(0, maxDescribed), `and ${messages.length - maxDescribed} more claims`];

/** Part of the message of the admission plugin PersistentVolumeClaimResize. */
const cannotResizeMessage = 'must support resize';

function refusalOutcome(refused: RefusedClaim, bookStore: BookStore, size: string): VolumeOutcome {
  const { claim, error } = refused;
  const { storageClassName = '' } = claim.spec ?? {};
  let reason: VolumeOutcome['reason'] = 'ResizeRefused';
  let advice = `correct what the API server names: a quota or a LimitRange (${kubectlCommand(bookStore, 'describe resourcequota,limitrange')}), a policy, a webhook or a permission`;
  if (error === undefined) {
    advice = 'correct the webhook or policy that changes it (kubectl get mutatingwebhookconfigurations)';
  } else if (isLowered(claim, size) && isInvalidField(error)) {
    advice = `upgrade the cluster to Kubernetes 1.32 or later, or create this BookStore again with dbSize ${capacityOf(claim)}, the present capacity`;
  } else if (serverMessage(error).includes(cannotResizeMessage)) {
    reason = 'StorageClassCannotGrow';
    advice =
      storageClassName === ''
        ? 'the claim has no StorageClass. Move its data to a claim with a StorageClass that allows it'
        : `StorageClass ${storageClassName} does not have allowVolumeExpansion: true or does not exist. If its driver can grow volumes, run kubectl patch storageclass ${storageClassName} --patch '{"allowVolumeExpansion":true}'`;
  }
  const retry = 'The operator retries at least once a minute';
  return { reason, message: `${cannotSetRequest(claim, size)}: ${advice}. ${retry}. ${answerTo(refused)}` };
}

/** A refusal for a removed replica causes no retry with backoff: the next reconcile, at the latest the resync, tries again. */
const removedReplicaMessage = (refused: RefusedClaim, size: string): string =>
  `${cannotSetRequest(refused.claim, size)}: the operator retries at the next change or resync, because the replica was removed. ${answerTo(refused)}`;

const answerTo = ({ claim, error }: RefusedClaim): string =>
  error === undefined
    ? `The API server accepted the new request, but the claim still requests ${requestOf(claim)}`
    : `The API server says: ${serverMessage(error)}`;

/** True if the claim requests more than `dbSize`. */
const isLowered = (claim: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(size, requestOf(claim)) < 0;

/** For example `the request of claim data-shop-db-0 (capacity 1Gi) cannot be raised from 1Gi to 2Gi`. */
const cannotSetRequest = (claim: PersistentVolumeClaim, size: string): string =>
  `the request of claim ${claim.metadata.name} (capacity ${capacityOf(claim)}) cannot be ${isLowered(claim, size) ? 'lowered' : 'raised'} from ${requestOf(claim)} to ${size}`;
