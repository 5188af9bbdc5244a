import { findCondition } from '@echoperator/runtime';
import { Event, PersistentVolumeClaim, Pod, ResourceQuota, StatefulSet } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { allowScheduling, preventScheduling } from '../../testkit/kwok.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import {
  addSidecar,
  apply,
  claimOf,
  cluster,
  fixed,
  growable,
  growOnline,
  imageOf,
  merge,
  operator,
  podOf,
  reconciled,
  requestOf,
  settled,
  setUp,
  spec,
  statefulSetOf,
  tearDown,
  templateSizeOf,
  triggerReconcile,
  unlessAbsent,
  type World,
  world,
} from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-growth'));
afterAll(() => tearDown());

/** Limits what the claims of the namespace may request in all. */
async function limitStorage({ key }: World, storage: string): Promise<void> {
  const metadata = { ...key, name: 'limit' };
  await cluster.client.apply(
    ResourceQuota,
    { metadata, spec: { hard: { 'requests.storage': storage } } },
    { force: true },
  );
  await eventually('the quota is counted', async () => {
    const { status } = await cluster.client.get(ResourceQuota, metadata);
    return status?.hard?.['requests.storage'] === storage && status.used?.['requests.storage'] !== undefined;
  });
}

describe('growing', () => {
  test('an online growth restarts nothing, and a later replica gets the new size', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2, env: [{ name: 'A', value: '1' }] }));
    await settled(at, 'IndependentDatabases');
    const before = await statefulSetOf(at.key);
    await addSidecar(StatefulSet, before);
    await merge(StatefulSet, before, { metadata: { annotations: { note: 'mine' } }, spec: { minReadySeconds: 0 } });
    await eventually('the sidecars run', async () => {
      const pods = [await unlessAbsent(podOf(at.key, 0)), await unlessAbsent(podOf(at.key, 1))];
      return pods.every((pod) => pod?.spec?.containers.length === 2);
    });
    await settled(at, 'IndependentDatabases');
    const pods = [await podOf(at.key, 0), await podOf(at.key, 1)];

    await apply(at.key, spec({}, { replicas: 2, env: [{ name: 'A', value: '1' }], dbSize: '2Gi' }));
    const growing = await settled(at, 'ClaimsGrowing');
    expect(findCondition(growing.status?.conditions, 'VolumeResizing')).toMatchObject({ status: 'True' });
    expect(findCondition(growing.status?.conditions, 'Ready')).toMatchObject({ status: 'False' });
    expect(findCondition(growing.status?.conditions, 'DatabaseReady')).toMatchObject({ status: 'True' });
    for (const ordinal of [0, 1]) await at.volumes.growVolume(`data-shop-db-${ordinal}`);
    await settled(at, 'FileSystemResizePending');
    await at.volumes.growFileSystem('data-shop-db-0');
    await at.volumes.growFileSystem('data-shop-db-1');
    const done = await settled(at, 'IndependentDatabases');
    expect(done.status?.volumes?.map(({ capacity }) => capacity)).toEqual(['2Gi', '2Gi']);

    const after = await statefulSetOf(at.key);
    expect(after.metadata.uid).toBe(before.metadata.uid);
    expect(after.metadata.annotations?.note).toBe('mine');
    expect(imageOf(after, 'sidecar')).toBe('example.com/sidecar');
    for (const [ordinal, pod] of pods.entries()) {
      const now = await podOf(at.key, ordinal);
      expect(now.metadata.uid).toBe(pod.metadata.uid);
      expect(now.status?.startTime).toBe(pod.status?.startTime);
    }

    // The claim of a later replica is created from the template of before, and grows like the others.
    expect(templateSizeOf(after)).toBe('1Gi');
    await apply(at.key, spec({}, { replicas: 3, dbSize: '2Gi' }));
    await growOnline(at, '2Gi', [2]);
    await settled(at, 'IndependentDatabases');
    const last = await statefulSetOf(at.key);
    expect(last.spec?.template.spec?.containers[0]?.env ?? []).toEqual([]);
    expect(imageOf(last, 'sidecar')).toBe('example.com/sidecar');
    expect((await claimOf(at.key, 2)).status?.capacity?.storage).toBe('2Gi');
  });

  test('a change of the pods in the same edit does not wait for the growth', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    await apply(at.key, spec({}, { tag: 'two', dbSize: '2Gi' }));
    await eventually('the pod is of the new image', async () =>
      (await unlessAbsent(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
    );
    await settled(at, 'ClaimsGrowing');
    await growOnline(at, '2Gi');
    await settled(at);
  });

  test('a new BookStore of the same name lowers the request of a claim that has not grown', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const { uid } = (await claimOf(at.key)).metadata;
    await apply(at.key, spec({}, { dbSize: '20Ti' }));
    await eventually('the claim asks for it', async () => (await requestOf(at.key)) === '20Ti');
    await at.volumes.failToGrow('data-shop-db-0', 'no room left');
    const failing = await settled(at, 'ResizeFailing');
    expect(findCondition(failing.status?.conditions, 'VolumeResizing')?.message).toContain('no room left');
    await expect(apply(at.key, spec({}, { dbSize: '2Gi' }))).rejects.toThrow('dbSize cannot shrink');

    await cluster.client.delete(BookStore, at.key);
    await eventually('its pod is gone', async () => (await unlessAbsent(podOf(at.key))) === undefined);
    await apply(at.key, spec({}, { dbSize: '2Gi' }));
    await growOnline(at, '2Gi');
    await settled(at);
    const claim = await claimOf(at.key);
    expect(claim.metadata.uid).toBe(uid);
    expect(claim.status?.capacity?.storage).toBe('2Gi');
    expect(templateSizeOf(await statefulSetOf(at.key))).toBe('2Gi');
  });

  test('a refusal by a quota is quoted, and retried', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    await limitStorage(at, '1Gi');
    await apply(at.key, spec({}, { dbSize: '2Gi', tag: 'two' }));
    const store = await settled(at, 'ResizeRefused');
    const condition = findCondition(store.status?.conditions, 'VolumeResizing');
    expect(condition).toMatchObject({ status: 'False', reason: 'ResizeRefused' });
    expect(condition?.message).toContain(
      'the request of claim data-shop-db-0 (capacity 1Gi) cannot be raised from 1Gi to 2Gi: ',
    );
    expect(condition?.message).toContain('exceeded quota: limit');
    await eventually('the new image runs', async () =>
      (await unlessAbsent(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
    );
    await limitStorage(at, '2Gi');
    await growOnline(at, '2Gi');
    await settled(at);
  });

  test('a volume that grows after a failure no longer counts as failing, although the error is still there', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    await apply(at.key, spec({}, { dbSize: '2Gi' }));
    await eventually('the claim asks for 2Gi', async () => (await requestOf(at.key)) === '2Gi');
    await at.volumes.failToGrow('data-shop-db-0', 'no room left');
    await settled(at, 'ResizeFailing');
    await at.volumes.growVolume('data-shop-db-0');
    expect((await claimOf(at.key)).status?.conditions?.map(({ type }) => type)).toContain('ControllerResizeError');
    await settled(at, 'FileSystemResizePending');
    await at.volumes.growFileSystem('data-shop-db-0');
    await settled(at);
  });

  test('a refused claim does not hide another that grows', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2 }));
    await settled(at, 'IndependentDatabases');
    await limitStorage(at, '3Gi');
    await apply(at.key, spec({}, { replicas: 2, dbSize: '2Gi' }));
    const store = await settled(at, 'ResizeRefused');
    const requests = [await requestOf(at.key, 0), await requestOf(at.key, 1)];
    expect([...requests].sort()).toEqual(['1Gi', '2Gi']);
    const [growing, refused] = requests[0] === '2Gi' ? [0, 1] : [1, 0];
    const condition = findCondition(store.status?.conditions, 'VolumeResizing');
    expect(condition?.status).toBe('True');
    expect(condition?.message).toContain(`waiting for the storage driver to grow claim data-shop-db-${growing}`);
    await growOnline(at, '2Gi', [growing]);
    await eventually('the condition names only the refused claim', async () => {
      const { status } = await settled(at, 'ResizeRefused');
      return findCondition(status?.conditions, 'VolumeResizing')?.status === 'False';
    });
    await limitStorage(at, '4Gi');
    await growOnline(at, '2Gi', [refused]);
    await settled(at, 'IndependentDatabases');
  });

  test('a claim without a volume blocks nothing, and grows when it has one', async () => {
    const at = await world('shop');
    const withheld = { ...at.key, name: 'data-shop-db-1', labels: { 'no-volume': 'true' } };
    await cluster.client.create(PersistentVolumeClaim, {
      metadata: withheld,
      spec: {
        accessModes: ['ReadWriteOnce'],
        storageClassName: growable,
        resources: { requests: { storage: '1Gi' } },
      },
    });
    await apply(at.key, spec({}, { replicas: 2 }));
    await settled(at, 'IndependentDatabases');
    await apply(at.key, spec({}, { replicas: 2, dbSize: '2Gi' }));
    await growOnline(at, '2Gi', [0]);
    await settled(at, 'IndependentDatabases');
    expect(await requestOf(at.key, 1)).toBe('1Gi');
    await merge(PersistentVolumeClaim, { metadata: withheld }, { metadata: { labels: { 'no-volume': null } } });
    await eventually('it has a volume', async () => (await claimOf(at.key, 1)).status?.phase === 'Bound');
    await growOnline(at, '2Gi', [1]);
    const { status } = await settled(at, 'IndependentDatabases');
    expect(status?.volumes?.map(({ capacity }) => capacity)).toEqual(['2Gi', '2Gi']);
  });

  test('the pod of a file system that does not grow is restarted after resizeRestartAfter, and no other pod', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2, resizeRestartAfter: '4s' }));
    await settled(at, 'IndependentDatabases');
    const before = [await podOf(at.key, 0), await podOf(at.key, 1)];
    await apply(at.key, spec({}, { replicas: 2, resizeRestartAfter: '4s', dbSize: '2Gi' }));
    await growOnline(at, '2Gi', [0]);
    await eventually('claim 1 asks for 2Gi', async () => (await requestOf(at.key, 1)) === '2Gi');
    await at.volumes.growVolume('data-shop-db-1');
    const pendingSince = (await claimOf(at.key, 1)).status?.conditions?.find(
      ({ type }) => type === 'FileSystemResizePending',
    )?.lastTransitionTime;
    const restarted = await eventually('pod 1 is restarted', async () => {
      const pod = await unlessAbsent(podOf(at.key, 1));
      return pod !== undefined && pod.metadata.uid !== before[1]?.metadata.uid && pod;
    });
    expect(Date.parse(restarted.metadata.creationTimestamp)).toBeGreaterThanOrEqual(
      Date.parse(pendingSince ?? '') + 4000,
    );
    // Now its volume is mounted anew.
    await at.volumes.growFileSystem('data-shop-db-1');
    await settled(at, 'IndependentDatabases');
    expect((await podOf(at.key, 0)).metadata.uid).toBe(before[0]?.metadata.uid);
    expect((await podOf(at.key, 1)).metadata.uid).toBe(restarted.metadata.uid);
    const { items } = await cluster.client.list(Event, { namespace: at.key.namespace });
    expect(items.filter(({ reason }) => reason === 'PodRestarted').map(({ note }) => note)).toEqual([
      'deleted pod shop-db-1, so that its volume is mounted again: while it ran, the file system of claim data-shop-db-1 from 1Gi to 2Gi was not grown',
    ]);
  });

  test('a pod is restarted once for a file system that never grows, then the reason is ResizeFailing', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { resizeRestartAfter: '2s' }));
    await settled(at);
    const { uid } = (await podOf(at.key)).metadata;
    await apply(at.key, spec({}, { resizeRestartAfter: '2s', dbSize: '2Gi' }));
    await eventually('the claim asks for 2Gi', async () => (await requestOf(at.key)) === '2Gi');
    await at.volumes.growVolume('data-shop-db-0');
    const restarted = await eventually('the pod is restarted', async () => {
      const pod = await unlessAbsent(podOf(at.key));
      return pod !== undefined && pod.metadata.uid !== uid && pod;
    });
    const failing = await settled(at, 'ResizeFailing');
    const condition = findCondition(failing.status?.conditions, 'VolumeResizing');
    expect(condition?.status).toBe('True');
    expect(condition?.message).toContain('data-shop-db-0');
    expect(condition?.message).toContain('pod shop-db-0');
    const reconciles = await reconciled(operator);
    await triggerReconcile(at.key);
    await eventually('it was reconciled again', async () => (await reconciled(operator)) > reconciles);
    expect((await podOf(at.key)).metadata.uid).toBe(restarted.metadata.uid);
    await at.volumes.growFileSystem('data-shop-db-0');
    await settled(at);
  });

  test('pods are restarted one at a time', async () => {
    const at = await world('shop');
    const slow = { replicas: 2, resizeRestartAfter: '2s' };
    await apply(at.key, spec({}, slow));
    await settled(at, 'IndependentDatabases');
    const uids = [(await podOf(at.key, 0)).metadata.uid, (await podOf(at.key, 1)).metadata.uid];
    await preventScheduling(cluster, at.key.namespace);
    await apply(at.key, spec({}, { ...slow, dbSize: '2Gi' }));
    for (const ordinal of [0, 1]) {
      await eventually('the claim asks for 2Gi', async () => (await requestOf(at.key, ordinal)) === '2Gi');
      await at.volumes.growVolume(`data-shop-db-${ordinal}`);
    }
    const pending = await eventually('pod 0 is another', async () => {
      const pod = await unlessAbsent(podOf(at.key, 0));
      return pod !== undefined && pod.metadata.uid !== uids[0] && pod;
    });
    const reconciles = await reconciled(operator);
    await eventually('pod 1 would be due', async () => (await reconciled(operator)) >= reconciles + 3);
    expect((await podOf(at.key, 1)).metadata.uid).toBe(uids[1]);
    await allowScheduling(cluster, at.key.namespace);
    await cluster.client.delete(Pod, pending.metadata);
    await eventually('pod 1 is another', async () => {
      const pod = await unlessAbsent(podOf(at.key, 1));
      return pod !== undefined && pod.metadata.uid !== uids[1];
    });
    for (const ordinal of [0, 1]) await at.volumes.growFileSystem(`data-shop-db-${ordinal}`);
    await settled(at, 'IndependentDatabases');
  });

  test('a StorageClass that cannot grow is named in the condition, and other changes are applied', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { storageClassName: fixed }));
    await settled(at);
    const { uid } = (await statefulSetOf(at.key)).metadata;
    await apply(at.key, spec({}, { storageClassName: fixed, dbSize: '2Gi', tag: 'two' }));
    const store = await settled(at, 'StorageClassCannotGrow');
    const condition = findCondition(store.status?.conditions, 'VolumeResizing');
    expect(condition).toMatchObject({ status: 'False', reason: 'StorageClassCannotGrow' });
    expect(condition?.message).toContain(`StorageClass ${fixed} does not have allowVolumeExpansion: true`);
    expect(await requestOf(at.key)).toBe('1Gi');
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const args = ['--namespace', at.key.namespace, 'get', 'bookstores'];
    const { stdout } = await execa(kubectl, args, { env: { KUBECONFIG: cluster.kubeconfig } });
    const [columns = [], cells = []] = stdout.split('\n').map((line) => line.split(/ +/));
    expect(cells[columns.indexOf('REQUESTED')]).toBe('2Gi');
    expect(cells[columns.indexOf('CAPACITY')]).toBe('1Gi');
    await eventually('the new image runs', async () =>
      (await unlessAbsent(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
    );
    const after = await statefulSetOf(at.key);
    expect(after.metadata.uid).toBe(uid);
    expect(templateSizeOf(after)).toBe('1Gi');
  });
});
