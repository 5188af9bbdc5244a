import { BookStore } from '../../api/index.ts';
import type { ApiError } from '../../runtime/client/index.ts';
import { isPredecessors } from '../../runtime/controller/index.ts';
import { defineReasons, type Kind, type KubeObject, type Outcome, type ReasonOf } from '../../runtime/index.ts';
import type { Deployment, PersistentVolumeClaim, StatefulSet } from '../built-in-kinds.ts';
import { wordsOf } from '../refusal.ts';
import { deploymentKey, type Settings, statefulSetKey } from './desired.ts';

/** The reasons of AppReady and DatabaseReady, whose status is that of `Ready`. */
export const partReasons = defineReasons({
  AppServing: {
    ready: 'True',
    event: 'Normal',
    meaning: 'The pods of the app are ready, all of the present template.',
  },
  AppUpdating: {
    ready: 'False',
    event: 'Normal',
    meaning:
      'Some pods of the app are not ready yet, or of an earlier template. The message says why a pod does not start.',
  },
  DatabaseServing: { ready: 'True', event: 'Normal', meaning: 'The database is ready.' },
  IndependentDatabases: {
    ready: 'True',
    event: 'Warning',
    meaning: 'More than one database is ready. They know nothing of one another.',
  },
  DatabaseUpdating: {
    ready: 'False',
    event: 'Normal',
    meaning: 'A database is not ready yet, or of an earlier template. The message says why a pod does not start.',
  },
  Replacing: {
    ready: 'False',
    event: 'Normal',
    meaning:
      'Somebody has deleted an object, or it belongs to an earlier BookStore of this name. It is created again when it is gone.',
  },
  NameTaken: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning: "An object with the name of a child is somebody else's. The message names it.",
  },
  Refused: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The API server refuses a change: a quota, a policy, a wrong field. The message quotes it.',
  },
  ClaimBeingDeleted: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning: 'Somebody deletes a claim that a database uses. The message names it.',
  },
});

/** The reasons of VolumeResizing. */
export const volumeReasons = defineReasons({
  VolumesSettled: { ready: 'True', event: 'Normal', meaning: 'No volume is growing.' },
  ClaimsGrowing: { ready: 'False', event: 'Normal', meaning: 'The claims ask for more, and wait for the storage.' },
  FileSystemResizePending: {
    ready: 'False',
    event: 'Normal',
    meaning: 'The volume has grown, its file system not yet.',
  },
  ResizeFailing: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The storage or the node has failed to grow a volume so far. The message says which.',
  },
  StorageClassCannotGrow: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The StorageClass, which the message names, lets no volume grow.',
  },
  ResizeRefused: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The API server refuses to let a claim grow for another reason: a quota, a policy.',
  },
});

/** The reasons of `Ready`: those of the other conditions, and these three. */
export const bookStoreReasons = defineReasons({
  ...partReasons,
  ...volumeReasons,
  AllReady: { ready: 'True', event: 'Normal', meaning: 'The app and the database are as the spec asks.' },
  Deleting: {
    ready: 'False',
    event: 'Normal',
    meaning:
      'The BookStore is being deleted. Its claims are deleted when the StatefulSet, which the message names, is gone.',
  },
  InvalidSpec: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning: 'The spec lacks a field. Only one that was stored under an older CustomResourceDefinition.',
  },
});

export type BookStoreOutcome = Outcome<ReasonOf<typeof bookStoreReasons>, BookStore>;

/** What a reconcile has observed of the app or of the database. */
export interface PartFinding {
  readonly reason: ReasonOf<typeof partReasons>;
  readonly message: string;
}

/** What a reconcile has observed of the volumes. */
export interface VolumeFinding {
  readonly reason: ReasonOf<typeof volumeReasons>;
  readonly message: string;
}

/** How the reconcile of the app ended. */
export interface AppResult {
  readonly app: PartFinding;
  /** Undefined: there is none that is this BookStore's. */
  readonly deployment?: Deployment | undefined;
  readonly error?: ApiError;
}

/** How the reconcile of the database and its volumes ended. */
export interface DatabaseResult {
  readonly database: PartFinding;
  readonly volume: VolumeFinding;
  /** Undefined: there is none that is this BookStore's. */
  readonly statefulSet?: StatefulSet | undefined;
  readonly claims: readonly PersistentVolumeClaim[];
  readonly requeueAfterMs?: number | undefined;
  readonly error?: ApiError | undefined;
}

/** The reasons under which VolumeResizing is True. */
const resizing: readonly VolumeFinding['reason'][] = ['ClaimsGrowing', 'FileSystemResizePending', 'ResizeFailing'];

/** The outcome of a reconcile. */
export function outcomeOf(
  bookStore: BookStore,
  settings: Settings,
  { app, deployment, error: appError }: AppResult,
  { database, volume, statefulSet, claims, requeueAfterMs, error: databaseError }: DatabaseResult,
): BookStoreOutcome {
  const appRollout = deployment && rolloutOf(deployment);
  return {
    ...summaryOf([database, app, volume]),
    conditions: [
      { type: 'DatabaseReady', status: partReasons[database.reason].ready, ...database },
      { type: 'AppReady', status: partReasons[app.reason].ready, ...app },
      { type: 'VolumeResizing', status: resizing.includes(volume.reason) ? 'True' : 'False', ...volume },
    ],
    status: {
      deploymentName: deploymentKey(bookStore).name,
      appServiceName: settings.app.serviceName,
      appReplicas: appRollout?.desired ?? settings.app.replicas ?? null,
      appReadyReplicas: appRollout?.ready ?? 0,
      statefulSetName: statefulSetKey(bookStore).name,
      databaseServiceName: settings.database.serviceName,
      databaseReplicas: settings.database.replicas,
      databaseReadyReplicas: statefulSet ? rolloutOf(statefulSet).ready : 0,
      volumes: claims.length === 0 ? null : claims.map(volumeOf),
    },
    requeueAfterMs,
    error: databaseError ?? appError,
  };
}

const volumeOf = ({ metadata, status }: PersistentVolumeClaim) => {
  const capacity = status?.capacity?.storage;
  return { claim: metadata.name, ...(capacity !== undefined && { capacity }) };
};

/** The reason of `Ready`: of the findings that are not ready, the first that a person should act on, or the first. */
function summaryOf(findings: readonly (PartFinding | VolumeFinding)[]): Pick<BookStoreOutcome, 'reason' | 'message'> {
  const isWarning = ({ reason }: PartFinding | VolumeFinding) => bookStoreReasons[reason].event === 'Warning';
  const open = findings.filter(({ reason }) => bookStoreReasons[reason].ready !== 'True');
  const { reason, message } = open.find(isWarning) ??
    open[0] ??
    findings.find(isWarning) ?? { reason: 'AllReady', message: 'the app and the database are as the spec asks' };
  return { reason, message };
}

/** How many pods a Deployment or a StatefulSet wants, and has. */
export interface Rollout {
  readonly desired: number;
  readonly ready: number;
  /** Of the present template. */
  readonly updated: number;
  /** As many as are wanted, all of the present template, all ready, and no others. */
  readonly isComplete: boolean;
}

/** The rollout as the workload's controller reports it; it is not complete until that has observed the present spec. */
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

/** The API server refuses a change; its words say which and why. */
export const refused = (error: ApiError): PartFinding => ({ reason: 'Refused', message: wordsOf(error) });

/** A child is being deleted. Its DELETED event enqueues the key. */
export const replacing = ({ kind }: Kind, { metadata }: KubeObject): PartFinding => ({
  reason: 'Replacing',
  message: `${kind} ${metadata.name} is being deleted, and created again when it is gone`,
});

/** @param advice what a person can do about it. */
export function nameTaken(bookStore: BookStore, kind: Kind, holder: KubeObject, advice: string): PartFinding {
  const { name } = holder.metadata;
  if (isPredecessors(holder, BookStore, bookStore)) {
    const message = `${kind.kind} ${name} belongs to an earlier BookStore of this name, and goes with it`;
    return { reason: 'Replacing', message };
  }
  return {
    reason: 'NameTaken',
    message: `a ${kind.kind} named ${name} exists and is not this BookStore's: ${advice}`,
  };
}
