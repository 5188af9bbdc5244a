import type { Client, Kind, ObjectKey } from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import { PersistentVolumeClaim, type Pod, type StatefulSet } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import { growthOf } from '../../../../src/kinds/book-store/claims.ts';
import type { BookStoreContext as Context } from '../../../../src/kinds/book-store/context.ts';
import { specWithDefaultsOf } from '../../../../src/kinds/book-store/desired.ts';
import { affectsRestart, restartPodsForFileSystemResize } from '../../../../src/kinds/book-store/restart.ts';
import { volumeOutcome } from '../../../../src/kinds/book-store/volume-outcome.ts';
import { bookStore, claim, pendingAt, see } from './objects.ts';

describe('the restart of pods whose file systems have not grown', () => {
  const statefulSetOf = (replicas: number, updatedReplicas = replicas) =>
    ({
      metadata: { name: 'shop-db', namespace: 'default', uid: 'uid-of-set', generation: 1 },
      spec: { replicas },
      status: { observedGeneration: 1, replicas, updatedReplicas, availableReplicas: replicas },
    }) as unknown as StatefulSet;
  const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();

  const pendingClaim = (ordinal: number, since: number | 'unknown', more: readonly object[] = []) => {
    const { conditions } = pendingAt(since === 'unknown' ? undefined : minutesAgo(since));
    return claim(`data-shop-db-${ordinal}`, '2Gi', {
      capacity: { storage: '1Gi' },
      conditions: [...conditions, ...more],
    });
  };

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
      conditions = [],
      waitsFor,
    }: {
      refusal?: ApiError;
      refusedRead?: ApiError;
      /** How many minutes ago each file system became pending, or all of them. */
      since?: number | 'unknown' | readonly number[];
      liveMetadata?: object;
      /** More conditions of each claim. */
      conditions?: readonly object[];
      waitsFor?: string;
    } = {},
  ) {
    const store = bookStore({ bookDB: { dbSize: '2Gi', replicas: pods.length, resizeRestartAfter: '5m' } });
    const sinceOf = (index: number) => (typeof since === 'object' ? (since[index] ?? 'unknown') : since);
    const claims = waiting.map((ordinal, index) => pendingClaim(ordinal, sinceOf(index), conditions));
    const deleted: string[] = [];
    const notes: string[] = [];
    const client = {
      get: (kind: Kind, { name }: ObjectKey) => {
        const live = claims.map((each) => ({ ...each, metadata: { ...each.metadata, ...liveMetadata } }));
        const from = kind.kind === PersistentVolumeClaim.kind ? live : pods;
        if (refusedRead?.request.endsWith(name)) return Promise.reject(refusedRead);
        const found = from.find(({ metadata }) => metadata.name === name);
        return found ?? Promise.reject(new ApiError('GET x', 404, { reason: 'NotFound' }));
      },
      delete: (_: Kind, { name }: ObjectKey) => {
        deleted.push(name);
        return refusal === undefined ? Promise.resolve() : Promise.reject(refusal);
      },
    } as unknown as Client;
    const event: Context['event'] = ({ note }) => notes.push(note);
    const context = { client, owned: () => pods as never, event };
    const spec = specWithDefaultsOf(store);
    const result = await restartPodsForFileSystemResize(
      claims.flatMap((each) => growthOf(each, '2Gi') ?? []),
      statefulSet,
      spec.database,
      context,
      waitsFor,
    );
    const { message } = volumeOutcome(store, spec, { claims, restart: result });
    const failed = result.growing.filter(({ step }) => step?.type === 'failed').map(({ claimName }) => claimName);
    return { deleted, notes, failed, waitsFor: result.waitsFor, message, error: result.error };
  }

  test('restarts one pod at a time', async () => {
    const { deleted, failed, message } = await restart(pod(0, { created: 60 }), pod(1, { created: 60 }));
    expect(deleted).toEqual(['shop-db-0']);
    expect(failed).toEqual([]);
    expect(message).toContain(
      '; waiting for pod shop-db-0 to end: its volume is mounted again when its next pod starts; the operator restarts pod shop-db-1 once, not before ',
    );
    expect(message).toMatch(/Z \(bookDB.resizeRestartAfter\), and not before pod shop-db-0 is ready; see /);
  });

  test('names the pod whose file system has been pending for the longest, and when it restarts that', async () => {
    const pods = [pod(0, { created: 60 }), pod(1, { created: 60 })];
    const { deleted, message } = await restartIn(statefulSetOf(2), pods, [0, 1], { since: [1, 4] });
    expect(deleted).toEqual([]);
    const [, at = ''] = /restarts pod shop-db-1 once, not before (\S+Z) /.exec(message) ?? [];
    expect(Date.parse(at) - Date.now()).toBeGreaterThan(30_000);
    expect(Date.parse(at) - Date.now()).toBeLessThan(62_000);
  });

  test.each([
    [1, 6],
    [6, 7],
  ])('names the pod that it restarts when all are ready, after %d and %d minutes', async (...since) => {
    const pods = [pod(0, { created: 60 }), pod(1, { created: 60 }), pod(2, { created: 60, ready: false })];
    const waiting = await restartIn(statefulSetOf(3), pods, [0, 1], { since });
    expect(waiting.deleted).toEqual([]);
    expect(waiting.message).toContain('the operator restarts pod shop-db-1 once, ');
    const ready = pods.map((_, ordinal) => pod(ordinal, { created: 60 }));
    expect((await restartIn(statefulSetOf(3), ready, [0, 1], { since })).deleted).toEqual(['shop-db-1']);
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

  test.each([
    [
      'has not started',
      { phase: 'Pending' },
      {},
      'pod shop-db-0 is not running, so the kubelet cannot grow the file system',
    ],
    [
      'is terminating',
      {},
      { deletionTimestamp: '2026-01-02T03:04:05Z' },
      'waiting for pod shop-db-0 to end: its volume is',
    ],
  ])('of a pod that %s is not announced: nothing mounts the volume', async (_, status, metadata, expected) => {
    const running = pod(0, { created: 60, ready: false });
    const stuck = {
      ...running,
      metadata: { ...running.metadata, ...metadata },
      status: { ...running.status, ...status },
    };
    const { deleted, message } = await restart(stuck);
    expect(deleted).toEqual([]);
    expect(message).toContain(`; ${expected}`);
    expect(message).not.toContain('resizeRestartAfter');
  });

  test('of pods that do not exist is not announced', async () => {
    const { message } = await restartIn(statefulSetOf(1), [], [0]);
    expect(message).toContain('; pod shop-db-0 does not exist, so the kubelet cannot grow the file system');
    const { message: ofTwo } = await restartIn(statefulSetOf(2), [], [0, 1]);
    expect(ofTwo).toMatch(/; pod shop-db-0 does not exist[^;]*; pod shop-db-1 does not exist/);
  });

  test('waits for a pod whose own volume has grown and that is not ready', async () => {
    const pods = [pod(0, { created: 60 }), pod(1, { created: 60, ready: false })];
    expect(await restartIn(statefulSetOf(2), pods, [0])).toMatchObject({
      deleted: [],
      waitsFor: 'all pods of StatefulSet shop-db are ready and have the current template',
    });
  });

  test('waits for a rollout, which replaces other pods', async () => {
    const pods = [pod(0, { created: 60 }), pod(1, { created: 60 })];
    expect(await restartIn(statefulSetOf(2, 1), pods, [0])).toMatchObject({
      deleted: [],
      waitsFor: 'all pods of StatefulSet shop-db are ready and have the current template',
    });
  });

  test('that the API server refuses is reported as what the growth waits for', async () => {
    const refusal = new ApiError('DELETE /x', 403, { reason: 'Forbidden', message: 'denied by policy' });
    const { message, error } = await restartIn(statefulSetOf(1), [pod(0, { created: 60 })], [0], { refusal });
    expect(message).toContain('; the operator cannot restart pods: the API server refuses DELETE /x: denied by policy');
    expect(message).not.toContain('the operator restarts');
    expect(error).toBe(refusal);
  });

  test('whose reads the API server refuses is reported as what the growth waits for', async () => {
    const refusedRead = new ApiError('GET /pods/shop-db-1', 403, { reason: 'Forbidden', message: 'no permission' });
    const pods = [pod(0, { created: 7 }), pod(1, { created: 60 })];
    expect(await restartIn(statefulSetOf(2), pods, [0, 1], { refusedRead })).toMatchObject({
      deleted: [],
      failed: ['data-shop-db-0'],
      message: expect.stringContaining(
        '; the operator cannot restart pods: the API server refuses GET /pods/shop-db-1: no permission',
      ),
      error: refusedRead,
    });
  });

  test('does not happen, and is not announced, if it is unknown since when the file system is pending', async () => {
    const pods = [pod(0, { created: 60 })];
    const { deleted, failed, message } = await restartIn(statefulSetOf(1), pods, [0], { since: 'unknown' });
    expect({ deleted, failed }).toEqual({ deleted: [], failed: [] });
    expect(message).toBe(
      `waiting for the kubelet to grow the file system of claim data-shop-db-0 from 1Gi to 2Gi; ${see('filesystemresizepending')}`,
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
    const blocked = { waitsFor: 'the API server accepts StatefulSet shop-db' };
    expect(await restartIn(statefulSetOf(1), pods, [0], blocked)).toMatchObject({ deleted: [], ...blocked });
  });

  test('is not announced for a pod that was restarted before, although another restart is blocked', async () => {
    const blocked = { waitsFor: 'the API server accepts StatefulSet shop-db' };
    const { deleted, failed, message } = await restartIn(statefulSetOf(1), [pod(0, { created: 7 })], [0], blocked);
    expect({ deleted, failed }).toEqual({ deleted: [], failed: ['data-shop-db-0'] });
    expect(message).toContain('so the operator does not restart it; see ');
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

  test('reports the deletion, and waits for the pod to end: on a lost node it never does', async () => {
    const lost = pod(0, { created: 60, ready: false });
    const { deleted, notes, message } = await restart(lost);
    expect(deleted).toEqual(['shop-db-0']);
    expect(notes).toEqual([
      'deleted pod shop-db-0, so that its volume is mounted again: while it ran, the file system of claim data-shop-db-0 from 1Gi to 2Gi was not grown',
    ]);
    const waiting = '; waiting for pod shop-db-0 to end: its volume is mounted again when its next pod starts';
    expect(message).toContain(waiting);
    expect(message).not.toContain('created after');

    const ending = { ...lost, metadata: { ...lost.metadata, deletionTimestamp: minutesAgo(0) } };
    const later = await restart(ending);
    expect(later).toMatchObject({ deleted: [], notes: [] });
    expect(later.message).toContain(waiting);
  });

  test('describes each claim once, although its error and its pod are reported', async () => {
    const conditions = [{ type: 'NodeResizeError', status: 'True', message: 'no such device' }];
    const pods = [pod(0, { created: 7 }), pod(1, { created: 7 })];
    const { message } = await restartIn(statefulSetOf(2), pods, [0, 1], { conditions });
    expect(message).not.toContain('more claim');
    for (const name of ['data-shop-db-0', 'data-shop-db-1']) {
      expect(message.split(`claim ${name} from 1Gi to 2Gi`)).toHaveLength(2);
    }
    expect(message).toContain('no such device; pod shop-db-1 was created after the volume had grown');
  });

  test('is announced only for a pod that runs and was created before the volume had grown', async () => {
    const soon = { since: 1 };
    const running = pod(0, { created: 60 });
    expect((await restartIn(statefulSetOf(1), [running], [0], soon)).message).toContain(
      'the operator restarts pod shop-db-0 once, not before ',
    );
    const notStarted = { ...running, status: { phase: 'Pending' } };
    const { message: ofNotStarted } = await restartIn(statefulSetOf(1), [notStarted], [0], soon);
    expect(ofNotStarted).toContain('; pod shop-db-0 is not running, ');
    expect(ofNotStarted).not.toContain('the operator restarts');
    const { message: ofLater } = await restartIn(statefulSetOf(1), [pod(0, { created: 0 })], [0], soon);
    expect(ofLater).toMatch(
      /; pod shop-db-0 was created after the volume had grown: if its file system has not grown by [\d-]+T[\d:]+Z \(bookDB.resizeRestartAfter\), the reason becomes ResizeFailing; see [^ ]+#filesystemresizepending$/,
    );
    expect(ofLater).not.toContain('the operator restarts');
  });

  test('depends on whether a pod exists, runs or ends', () => {
    const running = pod(0, { created: 1 });
    const pending = { ...running, status: { phase: 'Pending' } };
    const ending = { ...running, metadata: { ...running.metadata, deletionTimestamp: minutesAgo(0) } };
    expect(affectsRestart({ type: 'added', object: pending })).toBe(true);
    expect(affectsRestart({ type: 'modified', previous: pending, object: running })).toBe(true);
    expect(affectsRestart({ type: 'modified', previous: running, object: ending })).toBe(true);
    expect(affectsRestart({ type: 'deleted', object: ending })).toBe(true);
    const unready = pod(0, { created: 1, ready: false });
    expect(affectsRestart({ type: 'modified', previous: running, object: unready })).toBe(false);
  });
});
