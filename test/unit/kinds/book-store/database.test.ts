import { controllerReference, type Kind, type ObjectKey } from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import { type PersistentVolumeClaim, Pod, StatefulSet } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import { type DatabaseOptions, reconcileDatabase, statefulSetOf } from '../../../../src/kinds/book-store/database.ts';
import { specWithDefaultsOf } from '../../../../src/kinds/book-store/desired.ts';
import { BookStore } from '../../../../src/kinds/book-store/kind.ts';
import { volumeCondition } from '../../../../src/kinds/book-store/status.ts';
import { bookStoreDefaults } from '../../../../testkit/pod-settings.ts';
import { bookStore, claim, see } from './objects.ts';

describe('the claim template', () => {
  const templatesOf = (store: BookStore, existing?: StatefulSet) =>
    statefulSetOf(store, specWithDefaultsOf(store), existing, bookStoreDefaults).spec?.volumeClaimTemplates;

  test('has the size, the class and the uid of the BookStore', () => {
    expect(templatesOf(bookStore({ bookDB: { storageClassName: 'slow' } }))).toMatchObject([
      {
        metadata: { name: 'data', labels: { 'blog.velotio.com/book-store-uid': 'uid-of-shop' } },
        spec: { storageClassName: 'slow', resources: { requests: { storage: '1Gi' } } },
      },
    ]);
  });

  test('of an existing StatefulSet is repeated unchanged, because it is immutable', () => {
    const stored = [{ metadata: { name: 'data', labels: { team: 'a' } }, spec: { volumeMode: 'Block' } }];
    const existing = { spec: { volumeClaimTemplates: stored } } as unknown as StatefulSet;
    expect(templatesOf(bookStore({ bookDB: { dbSize: '3Gi' } }), existing)).toEqual(stored);
  });
});

describe('the StatefulSet', () => {
  test('keeps its serviceName, because it is immutable', () => {
    const store = bookStore({ bookDB: { serviceName: 'shop-db' } });
    const existing = { spec: { serviceName: 'mongodb-service' } } as unknown as StatefulSet;
    expect(statefulSetOf(store, specWithDefaultsOf(store), undefined, bookStoreDefaults).spec?.serviceName).toBe(
      'shop-db',
    );
    expect(statefulSetOf(store, specWithDefaultsOf(store), existing, bookStoreDefaults).spec?.serviceName).toBe(
      'mongodb-service',
    );
  });
});

const refusalOf = (message: string) =>
  new ApiError('PATCH /apis/apps/v1/namespaces/default/statefulsets/shop-db', 403, { reason: 'Forbidden', message });

const refuse = (message: string) => Promise.reject(refusalOf(message));

/** Reconciles the database of a BookStore that has a StatefulSet and asks for 2Gi. */
async function reconcile({
  claims,
  bookDB = {},
  refusal = 'exceeded quota',
  refusals = {},
  answer,
  applyStatefulSet,
  controlled = true,
  absent = false,
  metadata = {},
  serviceHolder,
  stored = {},
  live,
  podCreated = '2025-01-02T03:04:05Z',
}: {
  readonly claims: readonly PersistentVolumeClaim[];
  readonly bookDB?: object;
  /** The answer to each patch of a claim. */
  readonly refusal?: string;
  /** The answers to the patches of these claims. */
  readonly refusals?: Readonly<Record<string, ApiError>>;
  /** The claim as the API server stores it after each patch. Default: it refuses them. */
  readonly answer?: PersistentVolumeClaim;
  readonly applyStatefulSet?: (statefulSet: StatefulSet) => Promise<unknown>;
  readonly controlled?: boolean;
  /** Whether the StatefulSet does not exist. */
  readonly absent?: boolean;
  /** More metadata of the StatefulSet. */
  readonly metadata?: object;
  /** A Service of somebody else that has the name of the database's Service. */
  readonly serviceHolder?: object;
  /** How the metadata of the BookStore in the API server differs from that in the cache. */
  readonly stored?: object;
  /** A claim that the API server has, and the cache does not show yet. */
  readonly live?: PersistentVolumeClaim;
  /** When each pod of the StatefulSet was created. */
  readonly podCreated?: string;
}) {
  const store = bookStore({ bookDB: { dbSize: '2Gi', ...bookDB } });
  const replicas = specWithDefaultsOf(store).database.replicas;
  const statefulSet = {
    metadata: {
      name: 'shop-db',
      uid: 'uid-of-set',
      ownerReferences: controlled ? [controllerReference(BookStore, store)] : [],
      ...metadata,
    },
    spec: { replicas },
    status: { replicas, updatedReplicas: replicas, availableReplicas: replicas },
  } as unknown as StatefulSet;
  const podOf = (name: string) => ({
    metadata: {
      name,
      creationTimestamp: podCreated,
      ownerReferences: [
        { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'shop-db', uid: 'uid-of-set', controller: true },
      ],
    },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
  });
  return reconcileDatabase(store, specWithDefaultsOf(store), {
    context: {
      client: {
        get: async ({ kind }: Kind, { name }: ObjectKey) => {
          if (kind === BookStore.kind) return { ...store, metadata: { ...store.metadata, ...stored } };
          if (kind === Pod.kind) return podOf(name);
          const found = claims.find(({ metadata: { name: its } }) => its === name);
          return found ?? Promise.reject(new ApiError('GET x', 404, { reason: 'NotFound' }));
        },
        list: async () => ({ items: live === undefined ? claims : [live], metadata: { resourceVersion: '1' } }),
        patch: async (_: Kind, { name }: ObjectKey) => answer ?? Promise.reject(refusals[name] ?? refusalOf(refusal)),
      },
      get: () => (absent ? undefined : statefulSet),
      owned: () => Array.from({ length: replicas }, (_, ordinal) => podOf(`shop-db-${ordinal}`)),
      memory: {},
      isCurrent: async () => Object.keys(stored).length === 0,
      tryApply: async (kind: Kind) => {
        if (kind !== StatefulSet && serviceHolder !== undefined) return { type: 'nameTaken', holder: serviceHolder };
        if (kind !== StatefulSet) return { type: 'unchanged' };
        return applyStatefulSet?.(statefulSet) ?? { type: 'unchanged', object: statefulSet };
      },
    },
    podDefaults: bookStoreDefaults,
    allClaims: claims,
  } as unknown as DatabaseOptions);
}

const cannotBeRaised = 'the request of claim data-shop-db-0 (capacity 1Gi) cannot be raised from 1Gi to 2Gi';
const exceededQuota = `${cannotBeRaised}: the API server says: exceeded quota`;

test('a refused claim is reported also if the API server refuses the StatefulSet', async () => {
  const { database, volume } = await reconcile({
    claims: [claim('data-shop-db-0', '1Gi')],
    applyStatefulSet: () => refuse('denied by policy'),
  });
  expect(database).toEqual({
    reason: 'Refused',
    message:
      'the API server refuses PATCH /apis/apps/v1/namespaces/default/statefulsets/shop-db: denied by policy; the operator retries at least once a minute',
  });
  expect(volume).toEqual({ reason: 'ResizeRefused', message: `${exceededQuota}; ${see('resizerefused')}` });
});

describe('a refused claim', () => {
  const [first, second] = [claim('data-shop-db-0', '1Gi'), claim('data-shop-db-1', '1Gi')];

  test('does not hide another claim that grows', async () => {
    const growing = claim('data-shop-db-1', '2Gi', { capacity: { storage: '1Gi' } });
    const { volume } = await reconcile({ claims: [first, growing], bookDB: { replicas: 2 } });
    expect(volume).toEqual({
      reason: 'ResizeRefused',
      status: 'True',
      message: expect.stringContaining(
        '; waiting for the storage driver to grow claim data-shop-db-1 from 1Gi to 2Gi; see ',
      ),
    });
    expect(volumeCondition(volume).status).toBe('True');
  });

  test('does not hide the restart of a pod', async () => {
    const pending = { type: 'FileSystemResizePending', status: 'True', lastTransitionTime: new Date().toISOString() };
    const growing = claim('data-shop-db-1', '2Gi', { capacity: { storage: '1Gi' }, conditions: [pending] });
    const { volume } = await reconcile({ claims: [first, growing], bookDB: { replicas: 2 } });
    expect(volume).toMatchObject({ reason: 'ResizeRefused', status: 'True' });
    expect(volume.message).toContain('the operator restarts pod shop-db-1 once');
  });

  test('does not hide its growth to an earlier size', async () => {
    const pending = { type: 'FileSystemResizePending', status: 'True', lastTransitionTime: new Date().toISOString() };
    const claims = [claim('data-shop-db-0', '2Gi', { capacity: { storage: '1Gi' }, conditions: [pending] })];
    const { volume } = await reconcile({ claims, bookDB: { dbSize: '3Gi' } });
    expect(volume).toMatchObject({ reason: 'ResizeRefused', status: 'True' });
    expect(volume.message).toContain(
      'the request of claim data-shop-db-0 (capacity 1Gi) cannot be raised from 2Gi to 3Gi',
    );
    expect(volume.message).toContain(
      'waiting for the kubelet to grow the file system of claim data-shop-db-0 from 1Gi to 2Gi',
    );
  });

  test('does not hide another refusal', async () => {
    const refusals = { 'data-shop-db-1': refusalOf('must support resize') };
    const { volume } = await reconcile({ claims: [first, second], bookDB: { replicas: 2 }, refusals });
    expect(volume.reason).toBe('ResizeRefused');
    expect(volume.status).toBeUndefined();
    expect(volume.message).toContain(
      `${exceededQuota}; the request of claim data-shop-db-1 (capacity 1Gi) cannot be raised from 1Gi to 2Gi: the claim has no`,
    );
  });
});

test('a refused claim of a removed replica is reported, and does not make the BookStore unready', async () => {
  const { volume, error } = await reconcile({
    claims: [claim('data-shop-db-0', '2Gi'), claim('data-shop-db-1', '1Gi')],
  });
  expect(error).toBeUndefined();
  expect(volume).toEqual({
    reason: 'VolumesSettled',
    message: `claim data-shop-db-0 has 2Gi, and dbSize is 2Gi; the request of claim data-shop-db-1 (capacity 1Gi) cannot be raised from 1Gi to 2Gi, whose replica was removed: the API server says: exceeded quota; ${see('resizerefused')}`,
  });
});

test('the status lists every claim that a pod uses, also one that is being deleted and one of another controller', async () => {
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Backup', name: 'nightly', uid: 'x', controller: true }];
  const deletionTimestamp = '2026-01-02T03:04:05Z';
  const claims = [
    claim('data-shop-db-0', '1Gi', {}, { deletionTimestamp }),
    claim('data-shop-db-1', '1Gi', {}, { ownerReferences }),
    claim('data-shop-db-2', '2Gi'),
  ];
  const result = await reconcile({ claims, bookDB: { replicas: 3 } });
  expect(result.claims.map(({ metadata }) => metadata.name)).toEqual([
    'data-shop-db-0',
    'data-shop-db-1',
    'data-shop-db-2',
  ]);
});

test('the database does not start on a claim of somebody else that the cache does not show yet', async () => {
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: 'uid-of-owner', controller: true };
  const live = claim('data-shop-db-0', '1Gi', {}, { ownerReferences: [owner] });
  const applyStatefulSet = () => Promise.reject(new Error('it is not applied'));
  const { database } = await reconcile({ claims: [], absent: true, live, applyStatefulSet });
  expect(database.reason).toBe('NameTaken');
  expect(database.message).toContain('claim data-shop-db-0 is controlled by ConfigMap owner, so the operator ');
});

test('a BookStore with very many replicas sends one request to read their claims', async () => {
  const { statefulSet } = await reconcile({ claims: [], absent: true, bookDB: { replicas: 2_147_483_647 } });
  expect(statefulSet).toBeDefined();
});

test('a StatefulSet that is being deleted is reported also if the cache does not show that yet', async () => {
  const applyStatefulSet = (object: StatefulSet) => Promise.resolve({ type: 'terminating', object });
  for (const absent of [true, false]) {
    const { database, volume } = await reconcile({
      claims: [claim('data-shop-db-0', '2Gi')],
      absent,
      applyStatefulSet,
    });
    expect(database).toMatchObject({ reason: 'Replacing', message: expect.stringContaining('is being deleted') });
    expect(volume.reason).toBe('VolumesNotChecked');
  }
});

test('a volume that is larger than its request is not asked to grow', async () => {
  const small = claim('data-shop-db-0', '1Gi');
  const large = { ...small, status: { ...small.status, capacity: { storage: '10Gi' } } };
  const { volume, error } = await reconcile({ claims: [large], refusal: 'must support resize' });
  expect([volume.reason, error]).toEqual(['VolumesSettled', undefined]);
});

test('a StorageClass that cannot grow is named', async () => {
  const refusal = 'forbidden: the storageclass that provisions the pvc must support resize';
  const own = claim('data-shop-db-0', '1Gi');
  const fixed = { ...own, spec: { ...own.spec, storageClassName: 'fixed' } };
  expect((await reconcile({ claims: [fixed], refusal })).volume).toEqual({
    reason: 'StorageClassCannotGrow',
    message: `${cannotBeRaised}: StorageClass fixed does not have allowVolumeExpansion: true or does not exist: the API server says: forbidden: the storageclass that provisions the pvc must support resize; ${see('storageclasscannotgrow')}`,
  });
  expect((await reconcile({ claims: [own], refusal })).volume.message).toContain('the claim has no StorageClass');
});

test('a claim that has lost its volume is a warning that names the volume', async () => {
  const own = claim('data-shop-db-0', '2Gi', { phase: 'Lost', capacity: undefined });
  const { volume } = await reconcile({ claims: [{ ...own, spec: { ...own.spec, volumeName: 'pv-1' } }] });
  expect(volume).toEqual({
    reason: 'VolumeLost',
    message: `claim data-shop-db-0 is Lost: PersistentVolume pv-1 does not exist; ${see('volumelost')}`,
  });
  expect(volumeCondition(volume).status).toBe('False');
});

test('a lost volume does not hide another that grows', async () => {
  const lost = claim('data-shop-db-0', '2Gi', { phase: 'Lost', capacity: undefined });
  const growing = claim('data-shop-db-1', '2Gi', { capacity: { storage: '1Gi' } });
  const { volume } = await reconcile({ claims: [lost, growing], bookDB: { replicas: 2 } });
  expect(volume).toMatchObject({ reason: 'VolumeLost', status: 'True' });
  expect(volume.message).toContain('; waiting for the storage driver to grow claim data-shop-db-1 from 1Gi to 2Gi');
});

test('a request that a webhook changes is refused, and set again within a minute', async () => {
  const stored = claim('data-shop-db-0', '1Gi');
  const { volume, error, requeueAfterMs } = await reconcile({ claims: [stored], answer: stored });
  expect(volume).toEqual({
    reason: 'ResizeRefused',
    message: `${cannotBeRaised}: the API server accepted the new request, but the claim still requests 1Gi; ${see('resizerefused')}`,
  });
  expect(error).toBeUndefined();
  expect(requeueAfterMs).toBe(60_000);
});

test('a smaller request that an old API server refuses is reported with both sizes and the capacity', async () => {
  const message = 'PersistentVolumeClaim "data-shop-db-0" is invalid: field can not be less than previous value';
  const invalid = new ApiError('PATCH x', 422, { reason: 'Invalid', message });
  const claims = [claim('data-shop-db-0', '20Ti', { capacity: { storage: '1Gi' } })];
  const { volume } = await reconcile({ claims, refusals: { 'data-shop-db-0': invalid } });
  expect(volume.reason).toBe('ResizeRefused');
  expect(volume.message).toContain(
    `the request of claim data-shop-db-0 (capacity 1Gi) cannot be lowered from 20Ti to 2Gi: the API server says: ${message}; `,
  );
});

describe('VolumesSettled', () => {
  test('names a claim without a volume', async () => {
    const pending = claim('data-shop-db-1', '1Gi', { phase: 'Pending', capacity: undefined });
    const { volume } = await reconcile({
      claims: [claim('data-shop-db-0', '2Gi'), pending],
      bookDB: { replicas: 2 },
    });
    expect(volume).toEqual({
      reason: 'VolumesSettled',
      message:
        'claim data-shop-db-0 has 2Gi, and dbSize is 2Gi; claim data-shop-db-1 is Pending and has no volume; when it has one, it grows from 1Gi to 2Gi',
    });
  });

  test('says so if there is no claim', async () => {
    expect((await reconcile({ claims: [] })).volume.message).toBe('StatefulSet shop-db has no claim yet');
    const { volume } = await reconcile({ claims: [], bookDB: { replicas: 0 } });
    expect(volume.message).toBe('bookDB.replicas is 0: no volume is in use. Claims of removed replicas may still grow');
  });

  test('names a request that is larger than the volume, which the driver may still try to provide', async () => {
    const { volume } = await reconcile({ claims: [claim('data-shop-db-0', '20Ti', { capacity: { storage: '2Gi' } })] });
    expect(volume).toEqual({
      reason: 'VolumesSettled',
      message: 'claim data-shop-db-0 has 2Gi and requests 20Ti, and dbSize is 2Gi',
    });
  });

  test('names the controller of a foreign claim', async () => {
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Backup', name: 'nightly', uid: 'x', controller: true }];
    const { database, volume } = await reconcile({ claims: [claim('data-shop-db-0', '1Gi', {}, { ownerReferences })] });
    expect(volume.message).toBe('claim data-shop-db-0 is controlled by Backup nightly and does not grow');
    expect(database.message).toBe(
      `claim data-shop-db-0 is controlled by Backup nightly, so the operator neither grows it nor adds a pod to StatefulSet shop-db: ${see('nametaken')}`,
    );
  });

  test('names a claim that is being deleted', async () => {
    const deletionTimestamp = '2026-01-02T03:04:05Z';
    const own = claim('data-shop-db-0', '1Gi', {}, { deletionTimestamp });
    const { database, volume } = await reconcile({
      claims: [{ ...own, spec: { ...own.spec, volumeName: 'pv-1' } }],
    });
    expect(database.message).toBe(
      `claim data-shop-db-0 is being deleted: when pod shop-db-0 ends, PersistentVolume pv-1 is deleted with the data, unless its persistentVolumeReclaimPolicy is Retain; until it is gone, the operator does not change StatefulSet shop-db; ${see('claimbeingdeleted')}`,
    );
    expect(volume.message).toBe('claim data-shop-db-0 is being deleted and does not grow');
  });

  test('names a claim that is being deleted and has no volume', async () => {
    const metadata = { deletionTimestamp: '2026-01-02T03:04:05Z' };
    const pending = claim('data-shop-db-0', '1Gi', { phase: 'Pending', capacity: undefined }, metadata);
    const { database } = await reconcile({ claims: [pending] });
    expect(database).toEqual({
      reason: 'ClaimBeingDeleted',
      message: `claim data-shop-db-0 is being deleted: it has no volume, so no data is lost; until it is gone, the operator does not change StatefulSet shop-db; ${see('claimbeingdeleted')}`,
    });
  });
});

describe('VolumesNotChecked', () => {
  const claims = [claim('data-shop-db-0', '1Gi')];

  test('if the StatefulSet is not of this BookStore', async () => {
    const { volume } = await reconcile({ claims, controlled: false });
    expect(volume.reason).toBe('VolumesNotChecked');
    expect(volume.message).toMatch(
      /^the volumes are not checked against dbSize 2Gi: a StatefulSet named shop-db exists/,
    );
  });

  test('if the API server refuses to create the StatefulSet: no claim was asked to grow', async () => {
    const { volume } = await reconcile({ claims, absent: true, applyStatefulSet: () => refuse('denied by policy') });
    expect(volume.reason).toBe('VolumesNotChecked');
    expect(volume.message).toContain('denied by policy');
  });

  test('if the StatefulSet is being created or deleted', async () => {
    const created = await reconcile({ claims, absent: true });
    // The creation does not enqueue the key.
    expect(created.requeueAfterMs).toBe(0);
    expect(created.volume).toEqual({
      reason: 'VolumesNotChecked',
      message:
        'the volumes are not checked against dbSize 2Gi: StatefulSet shop-db was just created; the next reconcile checks the volumes',
    });
    const { volume } = await reconcile({ claims, metadata: { deletionTimestamp: '2026-01-02T03:04:05Z' } });
    expect(volume.reason).toBe('VolumesNotChecked');
    expect(volume.message).toContain('StatefulSet shop-db is being deleted');
  });
});

test('a claim that is being deleted is reported before a Service that belongs to somebody else', async () => {
  const { database, serviceTaken } = await reconcile({
    claims: [claim('data-shop-db-0', '2Gi', {}, { deletionTimestamp: '2026-01-02T03:04:05Z' })],
    serviceHolder: { metadata: { name: 'mongodb-service' } },
  });
  expect(database.reason).toBe('ClaimBeingDeleted');
  expect(serviceTaken?.reason).toBe('NameTaken');
  expect(serviceTaken?.message).toContain(see('nametaken'));
});

test.each([{ uid: 'successor' }, { generation: 2 }])(
  'a BookStore that is out of date, stored as %j, grows no claim',
  async (stored) => {
    const { volume } = await reconcile({ claims: [claim('data-shop-db-0', '1Gi')], stored });
    expect(volume.reason).toBe('VolumesNotChecked');
    expect(volume.message).toContain('the BookStore has changed since the operator read it');
  },
);

describe('the messages of a growth', () => {
  const growing = (conditions: readonly object[], podCreated?: string) =>
    reconcile({
      claims: [claim('data-shop-db-0', '2Gi', { capacity: { storage: '1Gi' }, conditions })],
      applyStatefulSet: () => refuse('denied by policy'),
      ...(podCreated !== undefined && { podCreated }),
    });

  test('name the claim and both sizes', async () => {
    expect((await growing([])).volume).toEqual({
      reason: 'ClaimsGrowing',
      message: `waiting for the storage driver to grow claim data-shop-db-0 from 1Gi to 2Gi; ${see('claimsgrowing')}`,
    });
  });

  test('name what the restart of a pod waits for', async () => {
    const lastTransitionTime = '2026-01-02T03:04:05Z';
    const pending = { type: 'FileSystemResizePending', status: 'True', lastTransitionTime };
    expect((await growing([pending])).volume).toEqual({
      reason: 'FileSystemResizePending',
      message: `waiting for the kubelet to grow the file system of claim data-shop-db-0 from 1Gi to 2Gi; the operator restarts pod shop-db-0 once, not before 2026-01-02T03:09:05Z (bookDB.resizeRestartAfter), and not before the API server accepts StatefulSet shop-db; ${see('filesystemresizepending')}`,
    });
    const status = { capacity: { storage: '1Gi' }, conditions: [pending] };
    const deletionTimestamp = '2026-01-02T03:04:05Z';
    const { volume } = await reconcile({
      bookDB: { replicas: 2 },
      claims: [claim('data-shop-db-0', '2Gi', {}, { deletionTimestamp }), claim('data-shop-db-1', '2Gi', status)],
    });
    expect(volume.message).toContain(
      'the operator restarts pod shop-db-1 once, not before 2026-01-02T03:09:05Z (bookDB.resizeRestartAfter), and not before claim data-shop-db-0 is deleted',
    );
  });

  test('announce no restart of a pod that was restarted before the API server refused the StatefulSet', async () => {
    const pending = { type: 'FileSystemResizePending', status: 'True', lastTransitionTime: '2026-01-02T03:04:05Z' };
    const { volume } = await growing([pending], '2026-01-02T03:09:05Z');
    expect(volume.reason).toBe('ResizeFailing');
    expect(volume.message).toContain('so the operator does not restart it; see ');
    expect(volume.message).not.toContain('the operator restarts');
  });

  test('announce no restart of a pod that was restarted before another claim was deleted', async () => {
    const pending = { type: 'FileSystemResizePending', status: 'True', lastTransitionTime: '2026-01-02T03:04:05Z' };
    const deletionTimestamp = '2026-01-02T03:04:05Z';
    const { volume } = await reconcile({
      bookDB: { replicas: 2 },
      claims: [
        claim('data-shop-db-0', '2Gi', {}, { deletionTimestamp }),
        claim('data-shop-db-1', '2Gi', { capacity: { storage: '1Gi' }, conditions: [pending] }),
      ],
      podCreated: '2026-01-02T03:09:05Z',
    });
    expect(volume.reason).toBe('ResizeFailing');
    expect(volume.message).not.toContain('the operator restarts');
  });

  test('accept a resizeRestartAfter that no date can hold', async () => {
    const pending = { type: 'FileSystemResizePending', status: 'True', lastTransitionTime: '2026-01-02T03:04:05Z' };
    const claims = [claim('data-shop-db-0', '2Gi', { capacity: { storage: '1Gi' }, conditions: [pending] })];
    const { volume } = await reconcile({ claims, bookDB: { resizeRestartAfter: '9999999999999999h' } });
    expect(volume.message).toContain('not before +275760-09-13T00:00:00Z');
  });

  test('count the claims that they do not describe', async () => {
    const small = [0, 1, 2, 3, 4].map((ordinal) => claim(`data-shop-db-${ordinal}`, '1Gi'));
    const { volume } = await reconcile({ claims: small, bookDB: { replicas: 5 } });
    expect(volume.message).toMatch(/claim data-shop-db-2 [^;]*; and 2 more claims; see /);
  });

  test('name a claim that waits beside one that fails', async () => {
    const error = { type: 'ControllerResizeError', status: 'True', message: 'no room' };
    const pending = { type: 'FileSystemResizePending', status: 'True', lastTransitionTime: new Date().toISOString() };
    const claims = [[error], [], [pending]].map((conditions, ordinal) =>
      claim(`data-shop-db-${ordinal}`, '2Gi', { capacity: { storage: '1Gi' }, conditions }),
    );
    const { volume } = await reconcile({ claims, bookDB: { replicas: 3 } });
    expect(volume.reason).toBe('ResizeFailing');
    expect(volume.message).toMatch(
      /^growing claim data-shop-db-0 [^;]*: ControllerResizeError: no room; waiting for the kubelet to grow the file system of claim data-shop-db-2 .*; waiting for the storage driver to grow claim data-shop-db-1 /,
    );
  });

  test('quote the error', async () => {
    expect((await growing([{ type: 'ControllerResizeError', status: 'True', message: 'no room' }])).volume).toEqual({
      reason: 'ResizeFailing',
      message: `growing claim data-shop-db-0 from 1Gi to 2Gi fails: ControllerResizeError: no room; ${see('resizefailing')}`,
    });
  });

  test('say that no restart helps on a node that cannot grow the volume', async () => {
    const conditions = [{ type: 'NodeResizeError', status: 'True', message: 'no such device' }];
    const allocatedResourceStatuses = { storage: 'NodeResizeInfeasible' };
    const status = { capacity: { storage: '1Gi' }, conditions, allocatedResourceStatuses };
    const { volume } = await reconcile({ claims: [claim('data-shop-db-0', '2Gi', status)] });
    expect(volume).toEqual({
      reason: 'ResizeFailing',
      message: `growing claim data-shop-db-0 from 1Gi to 2Gi fails: NodeResizeError, NodeResizeInfeasible: no such device; the operator does not restart pod shop-db-0: its node cannot grow the volume; ${see('resizefailing')}`,
    });
  });
});
