import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { V1ConfigMap } from '@kubernetes/client-node';
import { PodSet } from '../../src/api/index.ts';
import { Pod } from '../../src/controllers/built-in-kinds.ts';
import {
  builtInKind,
  controllerReference,
  findCondition,
  isControlledBy,
  type ObjectKey,
} from '../../src/runtime/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { Namespace, ResourceQuota, TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason as readyWithReason } from '../../testkit/with-reason.ts';

const ConfigMap = builtInKind<V1ConfigMap>({ group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps' });

let cluster: TestCluster;
let operator: OperatorProcess;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  operator = await OperatorProcess.start(cluster.kubeconfig);
});

afterAll(async () => {
  await operator?.stop();
  await cluster?.close();
});

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
  eventually(`${key.name} has ${count} pods`, async () => {
    const [set, pods] = [await cluster.client.get(PodSet, key), await active(key.namespace)];
    const { observedGeneration, replicas } = set.status ?? {};
    return pods.length === count && replicas === count && observedGeneration === set.metadata.generation && set;
  });

/** There is no kubelet: plays one whose containers run and are ready. */
async function makeReady(pods: readonly Pod[]): Promise<void> {
  const lastTransitionTime = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True', lastTransitionTime }] };
  for (const { metadata } of pods) {
    await cluster.client.patch(Pod, metadata, { type: 'merge', body: { status } }, { subresource: 'status' });
  }
}

/** Nor is there one that has a container of a broken image: its pod is not ready. */
const makeUnready = (pod: Pod) =>
  cluster.client.patch(
    Pod,
    pod.metadata,
    { type: 'merge', body: { status: { conditions: [{ type: 'Ready', status: 'False' }] } } },
    { subresource: 'status' },
  );

/** No kubelet confirms that a pod has ended either. */
const remove = (pod: Pod) => cluster.client.delete(Pod, pod.metadata, { gracePeriodSeconds: 0 });

const creations = async (namespace: string, code?: number) =>
  (await operatorWrites(cluster.auditLog, namespace)).filter(
    ({ verb, objectRef, responseStatus, requestURI }) =>
      verb === 'create' &&
      objectRef?.resource === 'pods' &&
      objectRef.subresource === undefined &&
      !requestURI.includes('dryRun=All') &&
      (code === undefined || responseStatus?.code === code),
  ).length;

/** The names of the pods whose removal the operator has asked for. */
const removals = async (namespace: string) =>
  (await operatorWrites(cluster.auditLog, namespace))
    .filter(({ verb, objectRef }) => verb === 'delete' && objectRef?.resource === 'pods')
    .map(({ objectRef }) => objectRef?.name ?? '');

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

  test('of a long name has pods whose label holds, and which it finds by it', async () => {
    const key = { name: `long-${'x'.repeat(245)}`, namespace: await cluster.namespace() };
    await apply(key, { replicas: 2 });
    const { status } = await settled(key, 2);
    expect(status?.selector).toMatch(/^app=long-x{47}-[0-9a-f]{10},version=v0\.1$/);
    const labelSelector = status?.selector ?? '';
    const { items } = await cluster.client.list(Pod, { namespace: key.namespace, labelSelector });
    expect(namesOf(items)).toEqual(status?.podNames);
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
    // More than are made in one turn.
    await cluster.client.patchScale(PodSet, key, 510);
    expect((await settled(key, 510)).status?.podNames).toEqual(namesOf(await podsIn(key.namespace)));
    expect(await creations(key.namespace)).toBe(511);
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

  test('without a template fits a restricted namespace, and a quota on CPU and memory', async () => {
    const key = { name: 'modest', namespace: await cluster.namespace() };
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await cluster.client.patch(Namespace, { name: key.namespace }, { type: 'merge', body: { metadata: { labels } } });
    const hard = { 'requests.cpu': '1', 'limits.cpu': '1', 'requests.memory': '1Gi', 'limits.memory': '1Gi' };
    await cluster.client.create(ResourceQuota, {
      metadata: { name: 'resources', namespace: key.namespace },
      spec: { hard },
    });
    await eventually('the quota counts', async () => {
      const quota = await cluster.client.get(ResourceQuota, { name: 'resources', namespace: key.namespace });
      return quota.status?.used?.['limits.cpu'] !== undefined;
    });
    await apply(key, { replicas: 2 });
    await settled(key, 2);
  });

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

  test.each([
    ['with a bad value', { name: 'NOT A NAME', image: 'x' }, 'spec.containers[0].name', 422],
    ['of a wrong type', { name: 'c', image: 1 }, 'Container.spec.containers.image of type string', 400],
    ['that there is not', { name: 'c', imagee: 'x' }, 'unknown field "spec.containers[0].imagee"', 400],
  ])(
    'with a field %s in its template says which, and tries no more until it is changed',
    async (_, container, words, code) => {
      const key = { name: 'wrong', namespace: await cluster.namespace() };
      await apply(key, { replicas: 5, template: { spec: { containers: [container] } } });
      const refused = await withReason(key, 'InvalidTemplate');
      expect(findCondition(refused.status?.conditions, 'Ready')?.message).toContain(words);
      // A pod that comes, is adopted and goes is a reason to look at it again.
      const labels = { app: 'wrong', version: 'v0.1' };
      const spec = { containers: [{ name: 'c', image: 'busybox:1.36' }] };
      const orphan = await cluster.client.create(Pod, { metadata: { ...key, name: 'orphan', labels }, spec });
      await eventually('it is adopted', async () => {
        return (await cluster.client.get(PodSet, key)).status?.podNames?.includes('orphan');
      });
      await remove(orphan);
      await eventually('it is missed', async () => (await cluster.client.get(PodSet, key)).status?.replicas === 0);
      expect(await creations(key.namespace)).toBe(1);
      expect(await creations(key.namespace, code)).toBe(1);
      await apply(key, { replicas: 1, template: { spec: { containers: [{ name: 'c', image: 'x' }] } } });
      await withReason(key, 'PodsNotReady');
    },
  );

  test('whose new template is wrong keeps all its pods', async () => {
    const key = { name: 'typo', namespace: await cluster.namespace() };
    const template = (container: object) => ({ spec: { containers: [{ name: 'c', ...container }] } });
    await apply(key, { replicas: 2, template: template({ image: 'one' }) });
    await settled(key, 2);
    await makeReady(await podsIn(key.namespace));
    await withReason(key, 'PodsReady');
    const before = namesOf(await podsIn(key.namespace));
    await apply(key, { replicas: 2, template: template({ imagee: 'two' }) });
    const { status } = await withReason(key, 'InvalidTemplate');
    expect(status).toMatchObject({ replicas: 2, readyReplicas: 2, updatedReplicas: 0 });
    expect(namesOf(await active(key.namespace))).toEqual(before);
    expect(await removals(key.namespace)).toEqual([]);
  });

  test('whose new template never becomes ready loses no pod more, though another is unready for a moment', async () => {
    const key = { name: 'broken', namespace: await cluster.namespace() };
    const template = (image: string) => ({ spec: { containers: [{ name: 'c', image }] } });
    await apply(key, { replicas: 3, template: template('one') });
    await settled(key, 3);
    await makeReady(await podsIn(key.namespace));
    await withReason(key, 'PodsReady');
    await apply(key, { replicas: 3, template: template('two') });
    await eventually('one is replaced', async () => {
      const { status } = await cluster.client.get(PodSet, key);
      return status?.replicas === 3 && status.updatedReplicas === 1;
    });
    const [blinking] = (await active(key.namespace)).filter(({ spec }) => spec?.containers[0]?.image === 'one');
    if (blinking === undefined) throw new Error('there are two');
    await makeUnready(blinking);
    await eventually('that is seen', async () => (await cluster.client.get(PodSet, key)).status?.readyReplicas === 1);
    expect(await removals(key.namespace)).toHaveLength(1);
    // What is broken goes first when it is mended.
    await apply(key, { replicas: 3, template: template('three') });
    const images = await eventually('one of the third template', async () => {
      const found = (await active(key.namespace)).map(({ spec }) => spec?.containers[0]?.image);
      return found.length === 3 && found.includes('three') && found;
    });
    expect(images).toContain('one');
    expect(await removals(key.namespace)).toHaveLength(2);
  });

  test('keeps five pods that have ended, and after some that ended early waits', async () => {
    const key = { name: 'ending', namespace: await cluster.namespace() };
    await apply(key, { replicas: 7 });
    await settled(key, 7);
    for (const { metadata } of await podsIn(key.namespace)) {
      const body = { status: { phase: 'Failed' } };
      await cluster.client.patch(Pod, metadata, { type: 'merge', body }, { subresource: 'status' });
    }
    const waiting = await withReason(key, 'PodsEndEarly');
    expect(findCondition(waiting.status?.conditions, 'Ready')?.message).toContain('in a row have ended');
    await eventually('five are left', async () => {
      const ended = (await podsIn(key.namespace)).filter(({ status }) => status?.phase === 'Failed');
      return ended.length === 5;
    });
    // Mended, it waits no more.
    await apply(key, { replicas: 1, template: { spec: { containers: [{ name: 'c', image: 'x' }] } } });
    await settled(key, 1);
  });

  test.each([
    ['pods that end', { spec: { restartPolicy: 'Never', containers: [] } }, 'Unsupported value: "Never"'],
    ['labels of the operator', { metadata: { labels: { app: 'x' } }, spec: {} }, 'are set by the operator'],
  ])('is refused with %s', async (_, template, words) => {
    const key = { name: 'refused', namespace: await cluster.namespace() };
    await expect(apply(key, { replicas: 1, template })).rejects.toThrow(words);
  });

  test('is refused with more pods than its status can name', async () => {
    const key = { name: 'huge', namespace: await cluster.namespace() };
    await expect(apply(key, { replicas: 5001 })).rejects.toThrow('should be less than or equal to 5000');
    await apply(key, { replicas: 0 });
    await expect(cluster.client.patchScale(PodSet, key, 50_000)).rejects.toThrow('5000');
  });
});

describe("faults of the original's", () => {
  /** A pod that has the labels of a PodSet and another controller. */
  async function foreignPod(key: Key, name: string): Promise<Pod> {
    const owner = await cluster.client.create(ConfigMap, { metadata: { ...key, name: `owner-of-${name}` } });
    return cluster.client.create(Pod, {
      metadata: {
        ...key,
        name,
        labels: { app: key.name, version: 'v0.1' },
        ownerReferences: [controllerReference(ConfigMap, owner)],
      },
      spec: { containers: [{ name: 'c', image: 'busybox:1.36' }] },
    });
  }

  test('counts any pod with the labels', async () => {
    const key = { name: 'counting', namespace: await cluster.namespace() };
    await foreignPod(key, 'foreign-1');
    await foreignPod(key, 'foreign-2');
    const set = await apply(key, { replicas: 2 });
    const { status } = await eventually('two of its own', async () => {
      const found = await cluster.client.get(PodSet, key);
      return found.status?.replicas === 2 && found;
    });
    const own = (await podsIn(key.namespace)).filter((pod) => isControlledBy(pod, set));
    expect(status?.podNames).toEqual(namesOf(own));
    expect(await creations(key.namespace)).toBe(2);
  });

  test('deletes the first in the list even if it is dying or not its own', async () => {
    const key = { name: 'deleting', namespace: await cluster.namespace() };
    const foreign = await foreignPod(key, 'a-foreign-one');
    await apply(key, { replicas: 3 });
    await eventually('three pods', async () => (await cluster.client.get(PodSet, key)).status?.replicas === 3);
    const [dying] = (await podsIn(key.namespace)).filter(({ metadata }) => metadata.name !== foreign.metadata.name);
    if (dying === undefined) throw new Error('three pods');
    const finalizers = (list: readonly string[]) =>
      cluster.client.patch(Pod, dying.metadata, { type: 'merge', body: { metadata: { finalizers: list } } });
    await finalizers(['test.example/stays']);
    await remove(dying);
    await eventually('it is replaced', async () => {
      const names = (await cluster.client.get(PodSet, key)).status?.podNames ?? [];
      return names.length === 3 && !names.includes(dying.metadata.name);
    });
    await cluster.client.patchScale(PodSet, key, 2);
    const { status } = await eventually('two pods', async () => {
      const found = await cluster.client.get(PodSet, key);
      return found.status?.replicas === 2 && found;
    });
    const removed = await removals(key.namespace);
    expect(removed).toHaveLength(1);
    expect([foreign.metadata.name, dying.metadata.name, ...(status?.podNames ?? [])]).not.toContain(removed[0]);
    await finalizers([]);
  });

  test('requeues for ever', async () => {
    const key = { name: 'resting', namespace: await cluster.namespace() };
    await apply(key, { replicas: 2 });
    await settled(key, 2);
    await makeReady(await podsIn(key.namespace));
    await withReason(key, 'PodsReady');
    const reconciles = async () => {
      const counts = (await operator.metrics()).matchAll(
        /^controller_runtime_reconcile_total\{controller="podset".* (\d+)$/gm,
      );
      return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
    };
    const before = await reconciles();
    const other = { ...key, name: 'other' };
    await apply(other, { replicas: 1 });
    await withReason(other, 'PodsNotReady');
    const between = (await reconciles()) - before;
    expect(between).toBeGreaterThan(0);
    // Those of the other, a few.
    expect(between).toBeLessThan(10);
  });
});

test('a restart of the operator writes nothing', async () => {
  const key = { name: 'lasting', namespace: await cluster.namespace() };
  await apply(key, { replicas: 3 });
  await settled(key, 3);
  // It ends with its Events.
  await operator.stop();
  const before = await operatorWrites(cluster.auditLog, key.namespace);
  operator = await OperatorProcess.start(cluster.kubeconfig);
  // One more, reconciled after those that the first lists found.
  const last = { name: 'last', namespace: await cluster.namespace() };
  await apply(last, { replicas: 1 });
  await settled(last, 1);
  expect(await operatorWrites(cluster.auditLog, key.namespace)).toEqual(before);
});

test('an operator that is killed while it makes pods, and started again, makes those that are missing', async () => {
  const key = { name: 'killed', namespace: await cluster.namespace() };
  await apply(key, { replicas: 200 });
  await eventually('some are there', async () => (await creations(key.namespace, 201)) >= 20);
  await operator.stop('SIGKILL');
  operator = await OperatorProcess.start(cluster.kubeconfig);
  await settled(key, 200);
  // As many as may have been under way in that moment.
  expect((await removals(key.namespace)).length).toBeLessThanOrEqual(32);
}, 120_000);
