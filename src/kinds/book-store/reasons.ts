import { type Condition, defineReasons, type Outcome } from '@echoperator/runtime';
import { type Reason, type StandardReason, standardReasons } from '@echoperator/runtime/controller';
import { type BookStore, bookStorePage } from './kind.ts';

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
export const componentReasons = defineReasons({ ...appReasons, ...databaseReasons, ...childReasons });

/**
 * The reasons of VolumeResizing. `resizing` is the status of the condition; `ready` says whether `Ready` may be True.
 */
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

export const seeSection = (reason: BookStoreOutcome['reason']): string =>
  `see ${bookStorePage}#${reason.toLowerCase()}`;
