import type { Condition, Kind, KubeObject, ReasonOf } from '@echoperator/runtime';
import type { ApiError } from '@echoperator/runtime/client';
import { nameTakenOutcome as nameTaken } from '@echoperator/runtime/controller';
import type { Deployment, PersistentVolumeClaim, StatefulSet } from '@echoperator/runtime/kinds';
import { limits } from '../shared/limits.ts';
import { deploymentKey, type SpecWithDefaults, statefulSetKey } from './desired.ts';
import { BookStore } from './kind.ts';
import { type BookStoreOutcome, componentReasons, seeSection, volumeReasons } from './reasons.ts';

/** The outcome for the app or for the database. */
export interface ComponentOutcome {
  readonly reason: ReasonOf<typeof componentReasons>;
  readonly message: string;
}

/** The outcome for the volumes. */
export interface VolumeOutcome {
  readonly reason: ReasonOf<typeof volumeReasons>;
  readonly message: string;
  /**
   * Set if it is not that of {@link volumeReasons}: besides the refusal or loss, some volume is growing or failing to
   * grow.
   */
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

/**
 * The reason of `Ready`: the first that is not ready and a Warning, else the first that is not ready, else the first
 * Warning.
 */
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

/**
 * The rollout as the workload's controller reports it. It is incomplete until that controller has observed the current
 * spec.
 */
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

/** A command for the namespace of the BookStore, as a message suggests it. */
export const kubectlCommand = ({ metadata }: BookStore, args: string): string =>
  `kubectl --namespace ${metadata.namespace} ${args}`;

/** For example `a`, `b` and `and 3 more claims`: a condition's message has a limited length. */
export function firstOf(noun: string, items: readonly string[], max = 5): readonly string[] {
  const more = items.length - max;
  return more <= 0 ? items : [...items.slice(0, max), `and ${more} more ${noun}${more === 1 ? '' : 's'}`];
}
