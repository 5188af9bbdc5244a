import type { BookStore } from '../../api/index.ts';
import { type Condition, type DesiredCondition, setCondition } from '../../runtime/index.ts';
import type { Deployment, PersistentVolumeClaim, StatefulSet } from '../built-in-kinds.ts';
import type { ReadyReport } from '../report-ready.ts';
import { deploymentKey, statefulSetKey } from './names.ts';
import { rolloutOf } from './rollout.ts';
import { settingsOf } from './settings.ts';

const good = { status: 'True', isReady: true, isWarning: false } as const;
const notYet = { status: 'False', isReady: false, isWarning: false } as const;
const bad = { status: 'False', isReady: false, isWarning: true } as const;

/** The reasons of AppReady and DatabaseReady: what the condition is, whether the whole is Ready, who should look at it. */
export const partReasons = {
  AppServing: good,
  AppUpdating: notYet,
  DatabaseServing: good,
  IndependentDatabases: { ...good, isWarning: true },
  DatabaseUpdating: notYet,
  Replacing: notYet,
  NameTaken: bad,
  Refused: bad,
  ClaimBeingDeleted: bad,
} as const;

/** The reasons of VolumeResizing. */
export const volumeReasons = {
  VolumesSettled: { status: 'False', isReady: true, isWarning: false },
  ClaimsGrowing: { status: 'True', isReady: false, isWarning: false },
  FileSystemResizePending: { status: 'True', isReady: false, isWarning: false },
  ResizeFailing: { status: 'True', isReady: false, isWarning: true },
  StorageClassCannotGrow: bad,
  ResizeRefused: bad,
} as const;

/** The reason of Ready where no part gives one. */
export const allReady = 'AllReady';

/** The reason of Ready where nothing can be made of the spec. */
export const invalidSpec = 'InvalidSpec';

export interface PartFinding {
  readonly reason: keyof typeof partReasons;
  readonly message: string;
}

export interface VolumeFinding {
  readonly reason: keyof typeof volumeReasons;
  readonly message: string;
}

/** What a reconcile has found out about a BookStore. */
export interface Finding {
  readonly app: PartFinding;
  readonly database: PartFinding;
  readonly volume: VolumeFinding;
  /** As far as there is one that is ours. */
  readonly deployment?: Deployment | undefined;
  readonly statefulSet?: StatefulSet | undefined;
  readonly claims: readonly PersistentVolumeClaim[];
}

/** What is to be reported. What no longer holds is null, to be removed; others' conditions stay. */
export function readyReport(store: BookStore, finding: Finding, now: Date): ReadyReport<BookStore> {
  const { app, database, volume, deployment, statefulSet, claims } = finding;
  const observedGeneration = store.metadata.generation;
  const settings = settingsOf(store);
  const { isReady, isWarning, reason, message } = sumUp(finding);
  const found: readonly DesiredCondition[] = [
    { type: 'DatabaseReady', status: partReasons[database.reason].status, ...database },
    { type: 'AppReady', status: partReasons[app.reason].status, ...app },
    { type: 'VolumeResizing', status: volumeReasons[volume.reason].status, ...volume },
    { type: 'Ready', status: isReady ? 'True' : 'False', reason, message },
  ];
  const conditions = found.reduce<readonly Condition[] | undefined>(
    (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
    store.status?.conditions,
  );
  const appRollout = deployment && rolloutOf(deployment);
  const databaseReadyReplicas = statefulSet ? rolloutOf(statefulSet).ready : 0;
  return {
    reason,
    message,
    isWarning,
    status: {
      deploymentName: deploymentKey(store).name,
      appServiceName: settings.app.serviceName,
      appReplicas: appRollout?.desired ?? settings.app.replicas ?? null,
      appReadyReplicas: appRollout?.ready ?? 0,
      statefulSetName: statefulSetKey(store).name,
      databaseServiceName: settings.database.serviceName,
      databaseReplicas: settings.database.replicas,
      databaseReadyReplicas,
      volumes: volumesOf(claims),
      observedGeneration,
      conditions: conditions ?? null,
    },
  };
}

/** What is to be reported of a BookStore of which nothing can be made. */
export function invalidReport(store: BookStore, message: string, now: Date): ReadyReport<BookStore> {
  const observedGeneration = store.metadata.generation;
  const condition = { type: 'Ready', status: 'False', reason: invalidSpec, message, observedGeneration } as const;
  const conditions = setCondition(store.status?.conditions, condition, now);
  return { reason: invalidSpec, message, isWarning: true, status: { observedGeneration, conditions } };
}

const volumesOf = (claims: readonly PersistentVolumeClaim[]) => {
  const volumes = claims.map(({ metadata, status }) => {
    const capacity = status?.capacity?.storage;
    return { claim: metadata.name, ...(capacity !== undefined && { capacity }) };
  });
  return volumes.length === 0 ? null : volumes;
};

interface Summary {
  readonly reason: string;
  readonly message: string;
  readonly isReady: boolean;
  readonly isWarning: boolean;
}

/** The first of these that is not as the spec asks says why the whole is not: what a person should look at comes first. */
function sumUp({ app, database, volume }: Finding): Summary {
  const parts = [
    { ...partReasons[database.reason], ...database },
    { ...partReasons[app.reason], ...app },
    { ...volumeReasons[volume.reason], ...volume },
  ];
  const open = parts.filter(({ isReady }) => !isReady);
  const said = open.find(({ isWarning }) => isWarning) ?? open[0] ?? parts.find(({ isWarning }) => isWarning);
  if (said !== undefined) return said;
  return {
    reason: allReady,
    message: 'the app and the database are as the spec asks',
    isReady: true,
    isWarning: false,
  };
}
