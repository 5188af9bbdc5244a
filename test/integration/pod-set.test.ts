import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { V1ResourceQuota } from '@kubernetes/client-node';
import { PodSet } from '../../src/api/index.ts';
import { Pod } from '../../src/controllers/built-in-kinds.ts';
import { builtInKind, findCondition, isControlledBy, type ObjectKey } from '../../src/runtime/index.ts';
import { operatorWrites } from './environment/audit.ts';
import { TestCluster } from './environment/cluster.ts';
import { eventually } from './environment/eventually.ts';
import { OperatorProcess } from './environment/operator-process.ts';
import { customManifest, withReason as readyWithReason } from './environment/with-reason.ts';

const ResourceQuota = builtInKind<V1ResourceQuota>({
  group: '',
  version: 'v1',
  kind: 'ResourceQuota',
  plural: 'resourcequotas',
});

let cluster: TestCluster;
let operator: OperatorProcess;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  operator = await OperatorProcess.start(cluster.kubeconfig);
}, 60_000);

afterAll(async () => {
  await operator?.stop();
  await cluster?.close();
}, 90_000);

type Key = Required<ObjectKey>;
const apply = (key: ObjectKey, spec: PodSet['spec']) =>
  cluster.client.apply(PodSet, customManifest(key, spec), { force: true });
const podsIn = async (namespace: string) => (await cluster.client.list(Pod, { namespace })).items;
const active = async (namespace: string) =>
  (await podsIn(namespace)).filter(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined && status?.phase !== 'Failed' && status?.phase !== 'Succeeded',
  );
const namesOf = (pods: readonly Pod[]): string[] => pods.map(({ metadata }) => metadata.name).sort();

const withReason = (key: ObjectKey, reason: string): Promise<PodSet> => readyWithReason(cluster, PodSet, key, reason);

/** Resolves when so many pods are there and the status says so. */
const settled = (key: Key, count: number): Promise<PodSet> =>
  eventually(
    `${key.name} has ${count} pods`,
    async () => {
      const [set, pods] = [await cluster.client.get(PodSet, key), await active(key.namespace)];
      const { observedGeneration, replicas } = set.status ?? {};
      return pods.length === count && replicas === count && observedGeneration === set.metadata.generation && set;
    },
    60_000,
  );

/** There is no kubelet: plays one whose containers run and are ready. */
async function makeReady(pods: readonly Pod[]): Promise<void> {
  const lastTransitionTime = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True', lastTransitionTime }] };
  for (const { metadata } of pods) {
    await cluster.client.patch(Pod, metadata, { type: 'merge', body: { status } }, { subresource: 'status' });
  }
}

/** No kubelet confirms that a pod has ended either. */
const remove = (pod: Pod) => cluster.client.delete(Pod, pod.metadata, { gracePeriodSeconds: 0 });

const creations = async (namespace: string, code?: number) =>
  (await operatorWrites(cluster.auditLog, namespace)).filter(
    ({ verb, objectRef, responseStatus }) =>
      verb === 'create' &&
      objectRef?.resource === 'pods' &&
      objectRef.subresource === undefined &&
      (code === undefined || responseStatus?.code === code),
  ).length;

describe('a PodSet', () => {
  test('makes its pods and tells of them', async () => {
    const key = { name: 'three', namespace: await cluster.namespace() };
    const set = await apply(key, { replicas: 3 });
    const { status } = await settled(key, 3);
    const pods = await podsIn(key.namespace);
    expect(status).toMatchObject({ replicas: 3, podNames: namesOf(pods), selector: 'app=three,version=v0.1' });
    for (const pod of pods) {
      expect(isControlledBy(pod, set)).toBe(true);
      expect(pod.metadata.name).toMatch(/^three-pod-[0-9a-f]{5}$/);
      expect(pod.metadata.labels).toMatchObject({ app: 'three', version: 'v0.1' });
      expect(pod.spec?.containers[0]).toMatchObject({ image: 'busybox:1.36', command: ['sleep', '3600'] });
    }
    await withReason(key, 'PodsNotReady');
    await makeReady(pods);
    expect((await withReason(key, 'PodsReady')).status).toMatchObject({ readyReplicas: 3, updatedReplicas: 3 });
    expect(await creations(key.namespace)).toBe(3);
  });

  test('is scaled by its subresource, to none and up again', async () => {
    const key = { name: 'scaled', namespace: await cluster.namespace() };
    await apply(key, { replicas: 1 });
    await settled(key, 1);
    const scale = await eventually('the selector is known', async () => {
      const found = await cluster.client.getScale(PodSet, key);
      return found.status?.selector !== undefined && found;
    });
    expect(scale).toMatchObject({ spec: { replicas: 1 }, status: { selector: 'app=scaled,version=v0.1' } });
    await cluster.client.patchScale(PodSet, key, 0);
    await settled(key, 0);
    expect((await withReason(key, 'PodsReady')).status?.podNames).toEqual([]);
    await cluster.client.patchScale(PodSet, key, 500);
    expect((await settled(key, 500)).status?.podNames).toEqual(namesOf(await podsIn(key.namespace)));
    // Of so many names two may be the same by chance: that creation is refused.
    expect(await creations(key.namespace, 201)).toBe(501);
    await cluster.client.patchScale(PodSet, key, 0);
    await settled(key, 0);
  }, 120_000);

  test('replaces a pod that is deleted, one that has ended, and one that lost its label', async () => {
    const key = { name: 'mended', namespace: await cluster.namespace() };
    const set = await apply(key, { replicas: 3 });
    await settled(key, 3);
    const [first, second, third] = await podsIn(key.namespace);
    if (!first || !second || !third) throw new Error('three pods');
    await remove(first);
    await cluster.client.patch(
      Pod,
      second.metadata,
      { type: 'merge', body: { status: { phase: 'Failed' } } },
      { subresource: 'status' },
    );
    await cluster.client.patch(Pod, third.metadata, { type: 'merge', body: { metadata: { labels: { app: 'else' } } } });
    const { status } = await eventually('three others', async () => {
      const found = await cluster.client.get(PodSet, key);
      const names = found.status?.podNames ?? [];
      return names.length === 3 && ![first, second, third].some((pod) => names.includes(pod.metadata.name)) && found;
    });
    expect(status?.replicas).toBe(3);
    const released = await cluster.client.get(Pod, third.metadata);
    expect(isControlledBy(released, set)).toBe(false);
  });

  test('adopts orphans that match, and leaves those of others alone', async () => {
    const key = { name: 'adopting', namespace: await cluster.namespace() };
    const labels = { app: 'adopting', version: 'v0.1' };
    const spec = { containers: [{ name: 'c', image: 'busybox:1.36' }] };
    const orphan = await cluster.client.create(Pod, { metadata: { ...key, name: 'orphan', labels }, spec });
    const reference = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'other', controller: true };
    const foreign = await cluster.client.create(Pod, {
      metadata: { ...key, name: 'foreign', labels, ownerReferences: [reference] },
      spec,
    });
    const set = await apply(key, { replicas: 2 });
    const { status } = await eventually('two pods of its own', async () => {
      const found = await cluster.client.get(PodSet, key);
      return found.status?.replicas === 2 && found;
    });
    expect(status?.podNames).toContain('orphan');
    expect(status?.podNames).not.toContain('foreign');
    expect(isControlledBy(await cluster.client.get(Pod, orphan.metadata), set)).toBe(true);
    const after = await cluster.client.get(Pod, foreign.metadata).catch(() => undefined);
    // The garbage collector may find that its owner is not there.
    if (after !== undefined) expect(after.metadata.ownerReferences).toEqual(foreign.metadata.ownerReferences);
  });

  test('that meets a full quota asks for no more than a few, and goes on when it is lifted', async () => {
    const key = { name: 'limited', namespace: await cluster.namespace() };
    await cluster.client.create(ResourceQuota, {
      metadata: { name: 'pods', namespace: key.namespace },
      spec: { hard: { pods: '2' } },
    });
    await eventually('the quota counts', async () => {
      const quota = await cluster.client.get(ResourceQuota, { name: 'pods', namespace: key.namespace });
      return quota.status?.used?.pods !== undefined;
    });
    await apply(key, { replicas: 100 });
    const refused = await withReason(key, 'PodRefused');
    expect(findCondition(refused.status?.conditions, 'Ready')?.message).toContain('exceeded quota');
    // 1 and 2, of which one is refused; then one a try.
    await eventually('it has tried more than once', async () => (await creations(key.namespace, 403)) >= 3);
    expect(await creations(key.namespace)).toBeLessThan(20);
    await cluster.client.delete(ResourceQuota, { name: 'pods', namespace: key.namespace });
    await settled(key, 100);
  }, 120_000);

  test('rolls its pods when the template changes, one after the other', async () => {
    const key = { name: 'rolling', namespace: await cluster.namespace() };
    const template = (image: string) => ({ spec: { containers: [{ name: 'c', image }] } });
    await apply(key, { replicas: 3, template: template('one') });
    await settled(key, 3);
    await makeReady(await podsIn(key.namespace));
    await withReason(key, 'PodsReady');
    await apply(key, { replicas: 3, template: template('two') });
    for (let round = 0; round < 3; round++) {
      const fresh = await eventually(`pod ${round + 1} of the new template`, async () => {
        const pods = await active(key.namespace);
        const updated = pods.filter(({ spec }) => spec?.containers[0]?.image === 'two');
        return pods.length === 3 && updated.length === round + 1 && updated;
      });
      await makeReady(fresh);
    }
    expect((await withReason(key, 'PodsReady')).status).toMatchObject({ updatedReplicas: 3, readyReplicas: 3 });
    expect(await creations(key.namespace)).toBe(6);
  });

  test('with a template that is wrong says which field, and tries no more until it is changed', async () => {
    const key = { name: 'wrong', namespace: await cluster.namespace() };
    await apply(key, { replicas: 5, template: { spec: { containers: [{ name: 'NOT A NAME', image: 'x' }] } } });
    const refused = await withReason(key, 'PodRefused');
    expect(findCondition(refused.status?.conditions, 'Ready')?.message).toContain('spec.containers[0].name');
    const other = { name: 'other', namespace: key.namespace };
    await apply(other, { replicas: 1 });
    await settled({ ...other }, 1);
    expect(await creations(key.namespace, 422)).toBe(1);
    await apply(key, { replicas: 1, template: { spec: { containers: [{ name: 'c', image: 'x' }] } } });
    await withReason(key, 'PodsNotReady');
  });
});

test('a restart of the operator writes nothing', async () => {
  const key = { name: 'lasting', namespace: await cluster.namespace() };
  await apply(key, { replicas: 3 });
  await settled(key, 3);
  const before = (await operatorWrites(cluster.auditLog, key.namespace)).length;
  await operator.stop();
  operator = await OperatorProcess.start(cluster.kubeconfig);
  // One more, reconciled after those that the first lists found.
  const last = { name: 'last', namespace: await cluster.namespace() };
  await apply(last, { replicas: 1 });
  await settled(last, 1);
  const writes = await operatorWrites(cluster.auditLog, key.namespace);
  // The Event of the last change may have been on its way.
  expect(writes.filter(({ objectRef }) => objectRef?.resource !== 'events').length).toBeLessThanOrEqual(before);
});
