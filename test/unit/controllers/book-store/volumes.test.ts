import { describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { settingsOf } from '../../../../src/controllers/book-store/desired.ts';
import {
  isForeign,
  ordinalOf,
  resizeProgressOf,
  restartPodsForFileSystemResize,
  statefulSetOfClaim,
  volumeOutcome,
} from '../../../../src/controllers/book-store/volumes.ts';
import { ApiError } from '../../../../src/runtime/client/index.ts';
import { type Client, type Kind, keyString, type ObjectKey } from '../../../../src/runtime/index.ts';
import { PersistentVolumeClaim, type Pod, type StatefulSet } from '../../../../src/runtime/kinds/index.ts';
import { bookStore, claim } from './objects.ts';

const owned = (ownerReferences: readonly object[]) => claim('data-shop-db-0', '1Gi', {}, { ownerReferences });
const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'other' };

test.each([
  ['data-shop-db-0', 'default/shop-db', 0],
  ['data-data-1-db-12', 'default/data-1-db', 12],
])('%s is of the StatefulSet %s, and its pod has the number %d', (name, statefulSet, ordinal) => {
  expect(keyString(statefulSetOfClaim(claim(name, '1Gi')) ?? { name: '' })).toBe(statefulSet);
  expect(ordinalOf(claim(name, '1Gi'))).toBe(ordinal);
});

test.each(['shop-db-0', 'data-shop-db', 'mydata-shop-db-0', 'data-shop-db-x', 'data-shop-db-00', 'data-shop-db-01'])(
  '%s is of none',
  (name) => {
    expect(statefulSetOfClaim(claim(name, '1Gi'))).toBeUndefined();
  },
);

test('a claim is foreign if another controller owns it', () => {
  const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'shop-db', uid: 'x', controller: true };
  expect(isForeign(owned([]))).toBe(false);
  expect(isForeign(owned([other]))).toBe(false);
  expect(isForeign(owned([set]))).toBe(false);
  expect(isForeign(owned([{ ...set, name: 'else' }]))).toBe(true);
  expect(isForeign(owned([{ ...other, controller: true }]))).toBe(true);
  expect(isForeign(owned([{ ...set, apiVersion: 'apps/v1beta2' }]))).toBe(false);
  expect(isForeign(owned([{ ...set, apiVersion: 'apps.kruise.io/v1beta1' }]))).toBe(true);
});

const pendingAt = (lastTransitionTime: string | undefined) => ({
  conditions: [
    { type: 'Resizing', status: 'True' },
    { type: 'FileSystemResizePending', status: 'True', ...(lastTransitionTime && { lastTransitionTime }) },
  ],
});
const none = { unfinished: [], fileSystems: [], failures: [] };

describe('the progress of claims', () => {
  test('claims with enough capacity are finished', () => {
    expect(resizeProgressOf([claim('data-a-db-0', '1Gi'), claim('data-a-db-1', '3Gi')], '1024Mi')).toEqual(none);
    expect(resizeProgressOf([], '1Gi')).toEqual(none);
  });

  test('a request does not count as capacity', () => {
    const asking = claim('data-a-db-0', '2Gi', { capacity: { storage: '1Gi' } });
    expect(resizeProgressOf([asking], '2Gi')).toEqual({
      ...none,
      unfinished: [{ claim: 'data-a-db-0', capacity: '1Gi' }],
    });
  });

  test('a claim without a volume does not count', () => {
    const waiting = { phase: 'Pending', capacity: undefined };
    expect(resizeProgressOf([claim('data-a-db-0', '1Gi', waiting)], '2Gi')).toEqual(none);
  });

  test('a claim that has lost its volume fails, and its pod is not restarted', () => {
    const status = { phase: 'Lost', capacity: undefined, ...pendingAt('2026-01-02T03:04:05Z') };
    expect(resizeProgressOf([claim('data-a-db-0', '1Gi', status)], '1Gi')).toMatchObject({
      fileSystems: [],
      failures: [{ claim: 'data-a-db-0', message: expect.stringContaining('does not exist any more') }],
    });
  });

  test('a pending file system has its start time and its pod', () => {
    const status = { capacity: { storage: '1Gi' }, ...pendingAt('2026-01-02T03:04:05Z') };
    expect(resizeProgressOf([claim('data-a-db-12', '2Gi', status)], '2Gi').fileSystems).toEqual([
      { claim: 'data-a-db-12', capacity: '1Gi', ordinal: 12, sinceMs: Date.parse('2026-01-02T03:04:05Z') },
    ]);
    const unknown = { capacity: { storage: '1Gi' }, ...pendingAt(undefined) };
    expect(resizeProgressOf([claim('data-a-db-0', '2Gi', unknown)], '2Gi').fileSystems[0]?.sinceMs).toBe(0);
  });

  test('a stale condition of a volume that has grown is ignored', () => {
    expect(resizeProgressOf([claim('data-a-db-0', '2Gi', pendingAt('2026-01-02T03:04:05Z'))], '2Gi')).toEqual(none);
  });

  test('a node that cannot grow the file system at all is not waited for', () => {
    const conditions = [...pendingAt(undefined).conditions, { type: 'NodeResizeError', status: 'True', message: 'no' }];
    const progressWith = (allocatedResourceStatuses: object) => {
      const status = { capacity: { storage: '1Gi' }, conditions, allocatedResourceStatuses };
      return resizeProgressOf([claim('data-a-db-0', '2Gi', status)], '2Gi');
    };
    expect(progressWith({ storage: 'NodeResizeInfeasible' })).toMatchObject({
      fileSystems: [],
      failures: [{ message: 'no' }],
    });
    // A driver that grows file systems only at mount reports an error too.
    expect(progressWith({ storage: 'NodeResizePending' }).fileSystems).toHaveLength(1);
  });

  test('an error of external-resizer does not count once its part has succeeded and the kubelet has its turn', () => {
    const error = { type: 'ControllerResizeError', status: 'True', message: 'no room' };
    const conditions = [error, ...pendingAt('2026-01-02T03:04:05Z').conditions];
    const failuresWith = (storage: string, more: readonly object[] = []) => {
      const status = { capacity: { storage: '1Gi' }, conditions: [...conditions, ...more] };
      return resizeProgressOf(
        [claim('data-a-db-0', '2Gi', { ...status, allocatedResourceStatuses: { storage } })],
        '2Gi',
      ).failures.map(({ message }) => message);
    };
    expect(failuresWith('NodeResizePending')).toEqual([]);
    expect(failuresWith('NodeResizeInProgress')).toEqual([]);
    expect(failuresWith('ControllerResizeInProgress')).toEqual(['no room']);
    const nodeError = { type: 'NodeResizeError', status: 'True', message: 'no such device' };
    expect(failuresWith('NodeResizeInProgress', [nodeError])).toEqual(['no such device']);
  });

  test.each(['ControllerResizeError', 'NodeResizeError'])('the message of %s is quoted', (type) => {
    const conditions = [{ type, status: 'True', message: 'no room' }];
    const failing = claim('data-a-db-0', '2Gi', { capacity: { storage: '1Gi' }, conditions });
    expect(resizeProgressOf([failing], '2Gi').failures).toEqual([
      { claim: 'data-a-db-0', capacity: '1Gi', message: 'no room' },
    ]);
  });
});

describe('the restart of pods whose file systems have not grown', () => {
  const statefulSetOf = (replicas: number, updatedReplicas = replicas) =>
    ({
      metadata: { name: 'shop-db', namespace: 'default', uid: 'uid-of-set', generation: 1 },
      spec: { replicas },
      status: { observedGeneration: 1, replicas, updatedReplicas, availableReplicas: replicas },
    }) as unknown as StatefulSet;
  const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();

  const pendingClaim = (ordinal: number, since: number | 'unknown') =>
    claim(`data-shop-db-${ordinal}`, '2Gi', {
      capacity: { storage: '1Gi' },
      ...pendingAt(since === 'unknown' ? undefined : minutesAgo(since)),
    });

  interface PodAges {
    readonly created: number;
    readonly started?: number;
    readonly ready?: boolean;
  }

  const pod = (ordinal: number, { created, started = created, ready = true }: PodAges) => {
    const name = `shop-db-${ordinal}`;
    const ownerReferences = [
      { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'shop-db', uid: 'uid-of-set', controller: true },
    ];
    const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False' }];
    return {
      metadata: { name, uid: `uid-of-${name}`, creationTimestamp: minutesAgo(created), ownerReferences },
      status: { phase: 'Running', startTime: minutesAgo(started), conditions },
    } as unknown as Pod;
  };

  /** Restarts the pods whose claims have waited for their file systems for ten minutes. */
  const restart = (...pods: readonly Pod[]) => restartIn(statefulSetOf(pods.length), pods);

  async function restartIn(
    statefulSet: StatefulSet,
    pods: readonly Pod[],
    waiting = pods.map((_, ordinal) => ordinal),
    {
      refusal,
      refusedRead,
      since = 10,
      liveMetadata = {},
      blockedUntil,
    }: {
      refusal?: ApiError;
      refusedRead?: ApiError;
      since?: number | 'unknown';
      liveMetadata?: object;
      blockedUntil?: string;
    } = {},
  ) {
    const store = bookStore({ bookDB: { dbSize: '2Gi', replicas: pods.length, resizeRestartAfter: '5m' } });
    const claims = waiting.map((ordinal) => pendingClaim(ordinal, since));
    const deleted: string[] = [];
    const client = {
      get: (kind: Kind, { name }: ObjectKey) => {
        const live = claims.map((each) => ({ ...each, metadata: { ...each.metadata, ...liveMetadata } }));
        const from = kind.kind === PersistentVolumeClaim.kind ? live : pods;
        if (refusedRead?.request.endsWith(name)) return Promise.reject(refusedRead);
        return Promise.resolve(from.find(({ metadata }) => metadata.name === name));
      },
      delete: (_: Kind, { name }: ObjectKey) => {
        deleted.push(name);
        return refusal === undefined ? Promise.resolve() : Promise.reject(refusal);
      },
    } as unknown as Client;
    const events = { record: () => undefined };
    const context = { client, log: pino({ enabled: false }), pods: { byOwner: () => pods }, events, blockedUntil };
    const progress = resizeProgressOf(claims, '2Gi');
    const result = await restartPodsForFileSystemResize(
      progress,
      statefulSet,
      store,
      settingsOf(store),
      context as unknown as Parameters<typeof restartPodsForFileSystemResize>[4],
    );
    const { message } = volumeOutcome(store, settingsOf(store), { claims, progress, restart: result });
    const failed = result.failedAfterRestart.map(({ claim: name }) => name);
    return { deleted, failed, blockedUntil: result.blockedUntil, message, error: result.error };
  }

  test('restarts one pod at a time', async () => {
    const { deleted, failed, message } = await restart(pod(0, { created: 60 }), pod(1, { created: 60 }));
    expect(deleted).toEqual(['shop-db-0']);
    expect(failed).toEqual([]);
    expect(message).toContain(
      '; the operator waits 300 s (bookDB.resizeRestartAfter) from the start of pod shop-db-0, and does not restart it again; the operator restarts pod shop-db-1 once, not before ',
    );
    expect(message).toMatch(/Z \(bookDB.resizeRestartAfter\), and not before pod shop-db-0 is ready$/);
  });

  test('continues with the next pod when the first is ready again', async () => {
    const { deleted } = await restart(pod(0, { created: 1 }), pod(1, { created: 60 }));
    expect(deleted).toEqual(['shop-db-1']);
  });

  test.each([1, 7])('waits for a pod that was created %d minutes ago and runs but is not ready', async (created) => {
    const { deleted, message } = await restart(pod(0, { created, ready: false }), pod(1, { created: 60 }));
    expect(deleted).toEqual([]);
    expect(message).toContain('the operator restarts pod shop-db-1 once, ');
    expect(message).toContain(', and not before pod shop-db-0 is ready');
  });

  test('waits for a pod whose own volume has grown and that is not ready', async () => {
    const pods = [pod(0, { created: 60 }), pod(1, { created: 60, ready: false })];
    expect(await restartIn(statefulSetOf(2), pods, [0])).toMatchObject({
      deleted: [],
      blockedUntil: 'all pods of StatefulSet shop-db are ready and have the current template',
    });
  });

  test('waits for a rollout, which replaces other pods', async () => {
    const pods = [pod(0, { created: 60 }), pod(1, { created: 60 })];
    expect(await restartIn(statefulSetOf(2, 1), pods, [0])).toMatchObject({
      deleted: [],
      blockedUntil: 'all pods of StatefulSet shop-db are ready and have the current template',
    });
  });

  test('that the API server refuses is reported as what the growth waits for', async () => {
    const refusal = new ApiError('DELETE /x', 403, { reason: 'Forbidden', message: 'denied by policy' });
    const { message, error } = await restartIn(statefulSetOf(1), [pod(0, { created: 60 })], [0], { refusal });
    expect(message).toContain('the operator restarts pod shop-db-0 once, ');
    expect(message).toContain(', and not before the API server allows DELETE /x: denied by policy');
    expect(error).toBe(refusal);
  });

  test('whose reads the API server refuses is reported as what the growth waits for', async () => {
    const refusedRead = new ApiError('GET /pods/shop-db-1', 403, { reason: 'Forbidden', message: 'no permission' });
    const pods = [pod(0, { created: 7 }), pod(1, { created: 60 })];
    expect(await restartIn(statefulSetOf(2), pods, [0, 1], { refusedRead })).toMatchObject({
      deleted: [],
      failed: ['data-shop-db-0'],
      blockedUntil: 'the API server allows GET /pods/shop-db-1: no permission',
      error: refusedRead,
    });
  });

  test('does not happen, and is not announced, if it is unknown since when the file system is pending', async () => {
    const pods = [pod(0, { created: 60 })];
    const { deleted, failed, message } = await restartIn(statefulSetOf(1), pods, [0], { since: 'unknown' });
    expect({ deleted, failed }).toEqual({ deleted: [], failed: [] });
    expect(message).toBe(
      'waiting for the kubelet to grow the file system of claim data-shop-db-0 from 1Gi to 2Gi (kubectl --namespace default describe pvc data-shop-db-0)',
    );
  });

  test('does not happen if the API server has a claim that is being deleted: it would lose the data', async () => {
    const liveMetadata = { deletionTimestamp: minutesAgo(0) };
    const { deleted } = await restartIn(statefulSetOf(1), [pod(0, { created: 60 })], [0], { liveMetadata });
    expect(deleted).toEqual([]);
  });

  test('of a pod that is not ready waits for no other: their full volumes may be the cause', async () => {
    const full = { created: 60, ready: false };
    expect((await restart(pod(0, full), pod(1, full))).deleted).toEqual(['shop-db-0']);
    expect((await restart(pod(0, { created: 60 }), pod(1, full))).deleted).toEqual(['shop-db-1']);
  });

  test('of a pod that is not ready does not wait for one that is not ready although it was restarted', async () => {
    const pods = [pod(0, { created: 7, ready: false }), pod(1, { created: 60, ready: false })];
    expect((await restart(...pods)).deleted).toEqual(['shop-db-1']);
  });

  test('of a pod that is not ready waits for what blocks all restarts', async () => {
    const pods = [pod(0, { created: 60, ready: false })];
    const blocked = { blockedUntil: 'the API server accepts StatefulSet shop-db' };
    expect(await restartIn(statefulSetOf(1), pods, [0], blocked)).toMatchObject({ deleted: [], ...blocked });
  });

  test('is not announced for a pod that was restarted before, although another restart is blocked', async () => {
    const blocked = { blockedUntil: 'the API server accepts StatefulSet shop-db' };
    const { deleted, failed, message } = await restartIn(statefulSetOf(1), [pod(0, { created: 7 })], [0], blocked);
    expect({ deleted, failed }).toEqual({ deleted: [], failed: ['data-shop-db-0'] });
    expect(message).toContain('so the operator does not restart it again');
    expect(message).not.toContain('the operator restarts');
  });

  test('happens once per resize, however slow the clock of the node is', async () => {
    const { deleted, failed } = await restart(pod(0, { created: 7, started: 60 }));
    expect(deleted).toEqual([]);
    expect(failed).toEqual(['data-shop-db-0']);
  });

  test('happens once per resize, however fast the clock of the node is', async () => {
    const { deleted } = await restart(pod(0, { created: 60, started: 1 }));
    expect(deleted).toEqual(['shop-db-0']);
  });
});
