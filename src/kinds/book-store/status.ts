import {
  type Condition,
  defineReasons,
  type Kind,
  type KubeObject,
  type Outcome,
  type ReasonOf,
} from '@echoperator/runtime';
import type { ApiError } from '@echoperator/runtime/client';
import {
  nameTakenOutcome as nameTaken,
  type Reason,
  type StandardReason,
  standardReasons,
} from '@echoperator/runtime/controller';
import type { Deployment, PersistentVolumeClaim, StatefulSet } from '@echoperator/runtime/kinds';
import { limits } from '../shared/limits.ts';
import { deploymentKey, type SpecWithDefaults, statefulSetKey } from './desired.ts';
import { BookStore, bookStorePage } from './kind.ts';

/** The reasons of AppReady only. `ready` is the status of the condition. */
const appReasons = defineReasons({
  AppServing: {
    ready: 'True',
    event: 'Normal',
    meaning: 'All pods of the app are ready and have the current template.',
  },
  AppUpdating: {
    ready: 'False',
    event: 'Normal',
    meaning:
      'Some pods of the app are not ready or have an earlier template. The message says why a pod does not start.',
  },
});

/** The reasons of DatabaseReady only. `ready` is the status of the condition. */
const databaseReasons = defineReasons({
  DatabaseServing: { ready: 'True', event: 'Normal', meaning: 'The database is ready.' },
  IndependentDatabases: {
    ready: 'True',
    event: 'Warning',
    meaning: 'More than one database is ready. They are independent: each has its own data.',
  },
  DatabaseUpdating: {
    ready: 'False',
    event: 'Normal',
    meaning: 'A database is not ready or has an earlier template. The message says why a pod does not start.',
  },
  ClaimBeingDeleted: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning: 'A claim that a database uses is being deleted.',
  },
});

const { NameTaken, Replacing, Refused, InvalidSpec } = standardReasons;

/** The standard reasons that AppReady and DatabaseReady have too. `ready` is the status of the condition. */
const childReasons = { Replacing, NameTaken, Refused };

/** The reasons of the conditions AppReady and DatabaseReady. */
const componentReasons = defineReasons({ ...appReasons, ...databaseReasons, ...childReasons });

/** The reasons of VolumeResizing. `resizing` is the status of the condition; `ready` says whether `Ready` may be True. */
export const volumeReasons = {
  VolumesSettled: {
    resizing: 'False',
    ready: 'True',
    event: 'Normal',
    meaning:
      'No claim in use has a capacity below `dbSize`, except those that the message names: `Pending`, being deleted, or another controller’s.',
  },
  VolumesNotChecked: {
    resizing: 'Unknown',
    ready: 'Unknown',
    event: 'Normal',
    meaning: 'It is not known whether a volume must grow. The message says why.',
  },
  ClaimsGrowing: {
    resizing: 'True',
    ready: 'False',
    event: 'Normal',
    meaning: 'A claim requests more than its capacity: the storage driver must grow the volume.',
  },
  FileSystemResizePending: {
    resizing: 'True',
    ready: 'False',
    event: 'Normal',
    meaning: 'The volume has grown. The kubelet has not grown its file system yet.',
  },
  ResizeFailing: {
    resizing: 'True',
    ready: 'False',
    event: 'Warning',
    meaning:
      'The storage driver or the kubelet reports an error, which the message quotes. Or the pod was created after the volume had grown, `resizeRestartAfter` has passed since, and the file system has not grown.',
  },
  VolumeLost: {
    resizing: 'False',
    ready: 'False',
    event: 'Warning',
    meaning: 'A claim is `Lost`: its PersistentVolume does not exist.',
  },
  StorageClassCannotGrow: {
    resizing: 'False',
    ready: 'False',
    event: 'Warning',
    meaning: 'The StorageClass does not allow volumes to grow, or does not exist.',
  },
  ResizeRefused: {
    resizing: 'False',
    ready: 'False',
    event: 'Warning',
    meaning:
      'The API server rejects the new request of a claim, for example because of a quota or a policy, or a webhook changes it.',
  },
} as const satisfies Readonly<Record<string, Reason & { readonly resizing: Condition['status'] }>>;

/** The reasons of `Ready` only. */
const readyReasons = defineReasons({
  AllReady: { ready: 'True', event: 'Normal', meaning: 'The app and the database match the spec and are ready.' },
  Deleting: {
    ready: 'False',
    event: 'Normal',
    meaning:
      'The BookStore is being deleted. The operator waits for the StatefulSet to be deleted, then deletes the claims.',
  },
});

/** The reasons of `Ready`, beside the standard ones: those of the other conditions and its own. */
export const bookStoreReasons = { ...appReasons, ...databaseReasons, ...volumeReasons, ...readyReasons };

/** The reasons of each condition. For `Ready`, the reasons that it may have on its own account. */
export const bookStoreConditions = {
  AppReady: { ...appReasons, ...childReasons },
  DatabaseReady: { ...databaseReasons, ...childReasons },
  VolumeResizing: volumeReasons,
  // The API server may refuse the finalizer before the children are reconciled.
  Ready: { ...readyReasons, Refused, InvalidSpec },
} as const;

export type BookStoreOutcome = Outcome<keyof typeof bookStoreReasons | StandardReason, BookStore>;

/** The outcome for the app or for the database. */
export interface ComponentOutcome {
  readonly reason: ReasonOf<typeof componentReasons>;
  readonly message: string;
}

/** The outcome for the volumes. */
export interface VolumeOutcome {
  readonly reason: ReasonOf<typeof volumeReasons>;
  readonly message: string;
  /** Set if it is not that of {@link volumeReasons}: besides the refusal or loss, some volume is growing or failing to grow. */
  readonly status?: Condition['status'];
}

/** The result of reconciling the app. */
export interface AppResult {
  readonly app: ComponentOutcome;
  /** Undefined if this BookStore owns none. */
  readonly deployment?: Deployment | undefined;
  readonly error?: ApiError;
}

/** The result of reconciling the database and its volumes. */
export interface DatabaseResult {
  readonly database: ComponentOutcome;
  readonly volume: VolumeOutcome;
  /** Undefined if this BookStore owns none. */
  readonly statefulSet?: StatefulSet | undefined;
  readonly claims: readonly PersistentVolumeClaim[];
  readonly requeueAfterMs?: number | undefined;
  readonly error?: ApiError | undefined;
}

/** The condition VolumeResizing. */
export const volumeCondition = ({ reason, message, status = volumeReasons[reason].resizing }: VolumeOutcome) =>
  ({ type: 'VolumeResizing', status, reason, message }) as const;

/** The outcome of the whole reconcile. */
export function outcomeOf(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  { app, deployment, error: appError }: AppResult,
  { database, volume, statefulSet, claims, requeueAfterMs, error: databaseError }: DatabaseResult,
): BookStoreOutcome {
  const appRollout = deployment && rolloutOf(deployment);
  return {
    ...summaryOf(bookStore, [database, app, volume]),
    conditions: [
      { type: 'DatabaseReady', status: componentReasons[database.reason].ready, ...database },
      { type: 'AppReady', status: componentReasons[app.reason].ready, ...app },
      volumeCondition(volume),
    ],
    status: {
      deploymentName: deploymentKey(bookStore).name,
      appServiceName: spec.app.serviceName,
      appReplicas: appRollout?.desired ?? spec.app.replicas ?? null,
      appReadyReplicas: appRollout?.ready ?? 0,
      statefulSetName: statefulSetKey(bookStore).name,
      databaseServiceName: spec.database.serviceName,
      databaseReplicas: spec.database.replicas,
      databaseReadyReplicas: statefulSet ? rolloutOf(statefulSet).ready : 0,
      volumes: claims.length === 0 ? null : claims.slice(0, limits.volumes).map(volumeOf),
    },
    requeueAfterMs,
    error: databaseError ?? appError,
  };
}

const volumeOf = ({ metadata, status }: PersistentVolumeClaim) => {
  const capacity = status?.capacity?.storage;
  return { claim: metadata.name, ...(capacity !== undefined && { capacity }) };
};

/** The reason of `Ready`: the first that is not ready and a Warning, else the first that is not ready, else the first Warning. */
function summaryOf(
  bookStore: BookStore,
  outcomes: readonly (ComponentOutcome | VolumeOutcome)[],
): Pick<BookStoreOutcome, 'reason' | 'message'> {
  const reasons = { ...componentReasons, ...volumeReasons };
  const isWarning = ({ reason }: ComponentOutcome | VolumeOutcome) => reasons[reason].event === 'Warning';
  const notReady = outcomes.filter(({ reason }) => reasons[reason].ready !== 'True');
  const { reason, message } =
    notReady.find(isWarning) ?? notReady[0] ?? outcomes.find(isWarning) ?? allReady(bookStore);
  return { reason, message };
}

const allReady = (bookStore: BookStore) =>
  ({
    reason: 'AllReady',
    message: `Deployment ${deploymentKey(bookStore).name} and StatefulSet ${statefulSetKey(bookStore).name} match the spec and are ready`,
  }) as const;

/** The pods of a Deployment or a StatefulSet: how many it wants and has. */
export interface Rollout {
  readonly desired: number;
  /** Available pods: ready for `minReadySeconds`, which somebody else may set. */
  readonly ready: number;
  /** Pods of the current template. */
  readonly updated: number;
  /** Whether there are as many pods as desired, all ready and of the current template, and no others. */
  readonly isComplete: boolean;
}

/** The rollout as the workload's controller reports it. It is incomplete until that controller has observed the current spec. */
export function rolloutOf({ metadata, spec, status }: Deployment | StatefulSet): Rollout {
  const desired = spec?.replicas ?? 1;
  const {
    observedGeneration = 0,
    replicas = 0,
    updatedReplicas: updated = 0,
    availableReplicas: ready = 0,
  } = status ?? {};
  const isObserved = observedGeneration >= (metadata.generation ?? 0);
  return {
    desired,
    ready,
    updated,
    isComplete: isObserved && replicas === desired && updated >= desired && ready >= desired,
  };
}

/** @param problem if it is not that the holder exists and does not belong to the BookStore. */
export const nameTakenOutcome = (
  bookStore: BookStore,
  kind: Kind,
  holder: KubeObject,
  problem?: string,
): ComponentOutcome =>
  nameTaken({ kind: BookStore, object: bookStore }, kind, holder, { advice: seeSection('NameTaken'), problem });

/** The reasons that have a section in the page, which says what to do. Its heading is the reason. */
export const documentedReasons: ReadonlySet<BookStoreOutcome['reason']> = new Set([
  'NameTaken',
  'IndependentDatabases',
  'ClaimBeingDeleted',
  'Deleting',
  'VolumeLost',
  'StorageClassCannotGrow',
  'ResizeRefused',
  'ClaimsGrowing',
  'FileSystemResizePending',
  'ResizeFailing',
]);

/** The message with a link to the section of the reason, if it has one. */
export const withLink = (message: string, reason: BookStoreOutcome['reason']): string =>
  documentedReasons.has(reason) ? `${message}; ${seeSection(reason)}` : message;

const seeSection = (reason: BookStoreOutcome['reason']): string => `see ${bookStorePage}#${reason.toLowerCase()}`;

/** A command for the namespace of the BookStore, as a message suggests it. */
export const kubectlCommand = ({ metadata }: BookStore, args: string): string =>
  `kubectl --namespace ${metadata.namespace} ${args}`;

/** For example `a`, `b` and `and 3 more claims`: a condition's message has a limited length. */
export function firstOf(noun: string, items: readonly string[], max = 5): readonly string[] {
  const more = items.length - max;
  return more <= 0 ? items : [...items.slice(0, max), `and ${more} more ${noun}${more === 1 ? '' : 's'}`];
}
