import { type Client, cleanedUp, deleteIfPresent, type Kind, type KubeObject, keyOf } from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import { type PersistentVolumeClaim, Pod, StatefulSet } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { bookStoreUidLabel } from '../../../../src/kinds/book-store/desired.ts';
import { type BookStore, bookStoreFinalizer } from '../../../../src/kinds/book-store/kind.ts';
import { deleteData } from '../../../../src/kinds/book-store/reclaim.ts';
import { bookStore, claim } from './objects.ts';

const deletionTimestamp = '2026-01-02T03:04:05Z';
const present = bookStore({ bookDB: { reclaimPolicy: 'Delete' } });
const leaving: BookStore = {
  ...present,
  metadata: { ...present.metadata, deletionTimestamp, finalizers: [bookStoreFinalizer] },
};
const controller = { apiVersion: 'blog.velotio.com/v1alpha1', kind: 'BookStore', name: 'shop', uid: 'uid-of-shop' };
const statefulSet = {
  metadata: {
    name: 'shop-db',
    namespace: 'default',
    uid: 'uid-of-set',
    resourceVersion: '7',
    ownerReferences: [{ ...controller, controller: true }],
  },
} as unknown as StatefulSet;

const refusal = (code: number, reason: string) => new ApiError('DELETE /x', code, { reason });

interface Cluster {
  /** As the API server has it, if the cache is behind. */
  readonly bookStore?: BookStore;
  readonly statefulSet?: StatefulSet;
  /** Get the label of the BookStore. */
  readonly claims?: readonly PersistentVolumeClaim[];
  readonly unlabelledClaims?: readonly PersistentVolumeClaim[];
  readonly pods?: readonly Pod[];
  readonly onDelete?: () => Promise<void>;
}

/** Reconciles the deletion of a BookStore whose data goes with it. */
async function reconcile(cluster: Cluster) {
  const { claims = [], unlabelledClaims = [] } = cluster;
  const labels = { [bookStoreUidLabel]: leaving.metadata.uid };
  const labelled = claims.map((each) => ({ ...each, metadata: { ...each.metadata, labels } }));
  const deleted: unknown[] = [];
  const notes: string[] = [];
  const client = {
    get: (kind: Kind, { name }: { readonly name: string }) => {
      const pod = cluster.pods?.find(({ metadata }) => metadata.name === name);
      const others = kind.kind === StatefulSet.kind ? cluster.statefulSet : (cluster.bookStore ?? leaving);
      const live = kind.kind === Pod.kind ? pod : others;
      return live ? Promise.resolve(live) : Promise.reject(refusal(404, 'NotFound'));
    },
    list: async () => ({ metadata: { resourceVersion: '1' }, items: [...labelled, ...unlabelledClaims] }),
    delete: (kind: Kind, { name }: { name: string }, preconditions: object) => {
      deleted.push([kind.kind, name, preconditions]);
      return cluster.onDelete?.() ?? Promise.resolve();
    },
  } as unknown as Client;
  const result = await deleteData(leaving, {
    client,
    event: ({ note }) => notes.push(note),
    delete: async (kind: Kind, { metadata }: KubeObject, options: object = {}) => {
      if (metadata.deletionTimestamp !== undefined) return 'terminating';
      const { uid } = metadata;
      return (await deleteIfPresent(client, kind, keyOf({ metadata }), { uid, ...options })) ? 'deleted' : 'gone';
    },
  });
  return { result, deleted, notes };
}

test('the StatefulSet is deleted before the claims, and the wait for it is reported', async () => {
  const first = await reconcile({ statefulSet });
  expect(first.deleted).toEqual([['StatefulSet', 'shop-db', { uid: 'uid-of-set', resourceVersion: '7' }]]);
  const waiting = {
    reason: 'Deleting',
    message: expect.stringContaining('StatefulSet shop-db'),
    requeueAfterMs: 60_000,
  };
  expect(first.result).toMatchObject(waiting);
  const going = { ...statefulSet, metadata: { ...statefulSet.metadata, deletionTimestamp } };
  expect(await reconcile({ statefulSet: going })).toMatchObject({ result: waiting, deleted: [] });
});

test('the claims are deleted when the StatefulSet is gone', async () => {
  const { result, deleted } = await reconcile({ claims: [claim('data-shop-db-0', '1Gi')] });
  expect(deleted).toMatchObject([
    ['PersistentVolumeClaim', 'data-shop-db-0', { uid: 'uid-of-data-shop-db-0', resourceVersion: '1' }],
  ]);
  expect(result).toEqual(cleanedUp);
});

test('the claims are kept if the policy has changed and the cache does not show it yet', async () => {
  const { spec } = bookStore({ bookDB: { reclaimPolicy: 'Retain' } });
  const claims = [claim('data-shop-db-0', '1Gi')];
  expect((await reconcile({ claims, bookStore: { ...leaving, spec } })).deleted).toEqual([]);
  const another = { ...leaving, metadata: { ...leaving.metadata, uid: 'uid-of-another' } };
  expect((await reconcile({ claims, bookStore: another })).deleted).toEqual([]);
});

test('a StatefulSet that is already gone is not an error', async () => {
  const onDelete = () => Promise.reject(refusal(404, 'NotFound'));
  expect((await reconcile({ statefulSet, onDelete })).result).toMatchObject({ reason: 'Deleting' });
});

test('a claim that has changed meanwhile is read again, because its label may have been removed to keep it', async () => {
  const onDelete = () => Promise.reject(refusal(409, 'Conflict'));
  await expect(reconcile({ claims: [claim('data-shop-db-0', '1Gi')], onDelete })).rejects.toThrow('409 Conflict');
});

test('the Event about a kept claim names the missing label', async () => {
  const kept = claim('data-shop-db-0', '1Gi');
  const { notes, deleted } = await reconcile({ unlabelledClaims: [kept] });
  expect(deleted).toEqual([]);
  expect(notes).toEqual([
    'kept claims data-shop-db-0 despite reclaimPolicy Delete: the operator did not create them for this BookStore (label blog.velotio.com/book-store-uid=uid-of-shop). Delete those that you do not need (kubectl --namespace default delete pvc data-shop-db-0)',
  ]);
});

test('nothing is deleted if the API server already has the finalizer orphan and the cache does not show it yet', async () => {
  const live = { ...leaving, metadata: { ...leaving.metadata, finalizers: [bookStoreFinalizer, 'orphan'] } };
  expect((await reconcile({ statefulSet, bookStore: live })).deleted).toEqual([]);
});

test('no claim is deleted if the API server already has the finalizer orphan and the cache does not show it yet', async () => {
  const live = { ...leaving, metadata: { ...leaving.metadata, finalizers: [bookStoreFinalizer, 'orphan'] } };
  expect((await reconcile({ claims: [claim('data-shop-db-0', '1Gi')], bookStore: live })).deleted).toEqual([]);
});

test('the Event names no claim that is being deleted', async () => {
  const going = claim('data-shop-db-0', '1Gi', {}, { deletionTimestamp });
  expect((await reconcile({ unlabelledClaims: [going] })).notes).toEqual([]);
});

test('the Event names a claim of another StatefulSet with the name of this one', async () => {
  const foreign = { ...statefulSet, metadata: { ...statefulSet.metadata, ownerReferences: [] } };
  const { notes, deleted } = await reconcile({ statefulSet: foreign, claims: [claim('data-shop-db-0', '1Gi')] });
  expect(deleted).toEqual([]);
  expect(notes).toEqual([
    expect.stringContaining('kept claims data-shop-db-0 despite reclaimPolicy Delete: StatefulSet shop-db'),
  ]);
});

test('a claim that an orphaned pod uses is kept, and the Event says so', async () => {
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data-shop-db-0' } }];
  const pods = [{ metadata: { name: 'shop-db-0' }, spec: { volumes } } as unknown as Pod];
  const { notes, deleted } = await reconcile({ claims: [claim('data-shop-db-0', '1Gi')], pods });
  expect(deleted).toEqual([]);
  expect(notes).toEqual([expect.stringContaining('pods that no StatefulSet controls use data-shop-db-0')]);
});

test.each<[string, object]>([
  ['is being deleted', { metadata: { name: 'shop-db-0', deletionTimestamp: '2026-01-01T00:00:00Z' } }],
  ['has a controller', { metadata: { name: 'shop-db-0', ownerReferences: [{ uid: 'u', controller: true }] } }],
  ['uses another claim', { spec: { volumes: [{ persistentVolumeClaim: { claimName: 'data-shop-db-1' } }] } }],
])('a claim whose pod %s is deleted', async (_, rest) => {
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data-shop-db-0' } }];
  const pod = { metadata: { name: 'shop-db-0' }, spec: { volumes }, ...rest } as unknown as Pod;
  const { deleted } = await reconcile({ claims: [claim('data-shop-db-0', '1Gi')], pods: [pod] });
  expect(deleted).toHaveLength(1);
});
