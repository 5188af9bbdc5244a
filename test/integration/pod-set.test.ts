import { controllerReference, findCondition, isControlledBy } from '@echoperator/runtime';
import { ConfigMap, Event, Namespace, Pod, ResourceQuota } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { echoManifest } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { failPull } from '../../testkit/failing-pull.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { scale } from '../../testkit/scale.ts';
import {
  active,
  apply,
  cluster,
  creations,
  type Key,
  keyNamed,
  namesOf,
  operator,
  podSetImage,
  podsIn,
  removals,
  remove,
  restartOperator,
  setReady,
  settled,
  setUp,
  tearDown,
  withReason,
} from './environment/pod-set-world.ts';

/** The types of TypeScript lack it. */
const { rawJSON: rawJson } = JSON as unknown as { rawJSON(text: string): object };

beforeAll(() => setUp());
afterAll(() => tearDown());

describe('a PodSet', () => {
  test('creates its pods and reports them', async () => {
    const key = await keyNamed('three');
    const set = await apply(key, { replicas: 3 });
    const { status } = await settled(key, 3);
    const pods = await podsIn(key.namespace);
    expect(status).toMatchObject({ replicas: 3, podNames: namesOf(pods), selector: 'app=three,version=v0.1' });
    for (const pod of pods) {
      expect(isControlledBy(pod, set)).toBe(true);
      expect(pod.metadata.name).toMatch(/^three-pod-[0-9a-f]{5}$/);
      expect(pod.metadata.labels).toMatchObject({ app: 'three', version: 'v0.1' });
      expect(pod.spec?.containers[0]).toMatchObject({ image: podSetImage, command: ['sleep', '3600'] });
    }
    expect((await withReason(key, 'PodsReady')).status).toMatchObject({ readyReplicas: 3, updatedReplicas: 3 });
    expect(await creations(key.namespace)).toBe(3);
  });

  test('with a long name has pods with a shortened label, by which it finds them', async () => {
    const key = await keyNamed(`long-${'x'.repeat(245)}`);
    await apply(key, { replicas: 2 });
    const { status } = await settled(key, 2);
    expect(status?.selector).toMatch(/^app=long-x{47}-[0-9a-f]{10},version=v0\.1$/);
    const labelSelector = status?.selector ?? '';
    const { items } = await cluster.client.list(Pod, { namespace: key.namespace, labelSelector });
    expect(namesOf(items)).toEqual(status?.podNames);
  });

  test('is scaled by its scale subresource, to zero and up again', async () => {
    const key = await keyNamed('scaled');
    await apply(key, { replicas: 1 });
    await settled(key, 1);
    const found = await eventually('the selector is known', async () => {
      const now = await scale(cluster.client, PodSet, key);
      return now.status?.selector !== undefined && now;
    });
    expect(found).toMatchObject({ spec: { replicas: 1 }, status: { selector: 'app=scaled,version=v0.1' } });
    await scale(cluster.client, PodSet, key, 0);
    await settled(key, 0);
    expect((await withReason(key, 'PodsReady')).status?.podNames).toEqual([]);
    await scale(cluster.client, PodSet, key, 20);
    expect((await settled(key, 20)).status?.podNames).toEqual(namesOf(await active(key.namespace)));
    expect(await creations(key.namespace)).toBe(21);
    const notes = await eventually('Events name the pods', async () => {
      const { items } = await cluster.client.list(Event, { namespace: key.namespace });
      const own = items.filter(({ reason }) => reason === 'PodsMade' || reason === 'PodsRemoved');
      return own.length >= 3 && own.map(({ reason, note }) => `${reason}: ${note}`);
    });
    expect(notes.map((note) => note.replaceAll(/scaled-pod-[0-9a-f]{5}/g, 'POD')).sort()).toEqual([
      'PodsMade: created POD',
      'PodsMade: created POD, POD, POD and 17 more',
      'PodsRemoved: deleted POD',
    ]);
  });

  test('that is scaled down deletes pods that are not ready first, then those with the lowest deletion cost', async () => {
    const key = await keyNamed('smaller');
    await apply(key, { replicas: 4 });
    await withReason(key, 'PodsReady');
    const [unready, cheap, dear] = await podsIn(key.namespace);
    if (!unready || !cheap || !dear) throw new Error('four pods');
    const cost = (pod: Pod, of: string) =>
      cluster.client.patch(Pod, pod.metadata, {
        type: 'merge',
        body: { metadata: { annotations: { 'controller.kubernetes.io/pod-deletion-cost': of } } },
      });
    await cost(cheap, '-1');
    await cost(dear, '1');
    await setReady(unready, 'False');
    await eventually('that is seen', async () => (await cluster.client.get(PodSet, key)).status?.readyReplicas === 3);
    await scale(cluster.client, PodSet, key, 2);
    await settled(key, 2);
    expect((await removals(key.namespace)).sort()).toEqual(namesOf([unready, cheap]));
    await scale(cluster.client, PodSet, key, 1);
    expect((await settled(key, 1)).status?.podNames).toEqual([dear.metadata.name]);
  });

  test('replaces a deleted pod, a finished pod, and a pod without its label', async () => {
    const key = await keyNamed('mended');
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

  test('adopts matching orphans, and leaves pods of other controllers alone', async () => {
    const key = await keyNamed('adopting');
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

  test('with a full quota sends few requests, and continues when the quota is deleted', async () => {
    const key = await keyNamed('limited');
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
  });

  test('without a template fits a restricted namespace, and a quota on CPU and memory', async () => {
    const key = await keyNamed('modest');
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

  test('replaces its pods one after the other when the template changes', async () => {
    // Without a node: the test says when each pod is ready.
    const key = { name: 'rolling', namespace: await cluster.namespace() };
    const makeReady = async (pods: readonly Pod[]) => {
      for (const pod of pods) await setReady(pod, 'True');
    };
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
    ['that is unknown', { name: 'c', imagee: 'x' }, 'unknown field "spec.containers[0].imagee"', 400],
  ])('with a field %s in its template names the field and retries with backoff', async (_, container, words, code) => {
    const key = await keyNamed('wrong');
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
    await eventually('it is tried again', async () => (await creations(key.namespace, code)) > 3);
    expect(await creations(key.namespace, 201)).toBe(0);
    await apply(key, { replicas: 1, template: { spec: { containers: [{ name: 'c', image: 'x' }] } } });
    await withReason(key, 'PodsReady');
  });

  test('with an integer in its template that the operator cannot copy exactly keeps all its pods', async () => {
    const key = await keyNamed('large');
    const template = (terminationGracePeriodSeconds: unknown) => ({
      spec: { terminationGracePeriodSeconds, containers: [{ name: 'c', image: 'x' }] },
    });
    await apply(key, { replicas: 2, template: template(30) });
    await withReason(key, 'PodsReady');
    const before = namesOf(await podsIn(key.namespace));
    // JSON.stringify would round a number.
    await apply(key, { replicas: 3, template: template(rawJson('9007199254740993')) });
    const { status } = await withReason(key, 'InvalidTemplate');
    expect(findCondition(status?.conditions, 'Ready')?.message).toMatch(
      /^spec\.template: .*spec\.terminationGracePeriodSeconds: Invalid value: 9007199254740992: /,
    );
    expect(namesOf(await podsIn(key.namespace))).toEqual(before);
  });

  test('says why a pod does not start until it starts', async () => {
    // Without a node: the test says how the pods are.
    const key = { name: 'stuck', namespace: await cluster.namespace() };
    await apply(key, { replicas: 2 });
    await settled(key, 2);
    const [first, second] = await podsIn(key.namespace);
    if (first === undefined || second === undefined) throw new Error('there are two');
    await setReady(first, 'True');
    await failPull(cluster.client, second.metadata, 'busybox:nil');
    const message = async () =>
      findCondition((await cluster.client.get(PodSet, key)).status?.conditions, 'Ready')?.message;
    const why = `pod ${second.metadata.name}: ImagePullBackOff: Back-off pulling image "busybox:nil"`;
    await eventually('the status says why', async () => (await message()) === `1 of 2 pods are ready; ${why}`);
    await setReady(second, 'True');
    await withReason(key, 'PodsReady');
    expect(await message()).toBe('2 of 2 pods are ready');
  });

  test('with an invalid new template keeps all its pods', async () => {
    const key = await keyNamed('typo');
    const template = (container: object) => ({ spec: { containers: [{ name: 'c', ...container }] } });
    await apply(key, { replicas: 2, template: template({ image: 'one' }) });
    await settled(key, 2);
    await withReason(key, 'PodsReady');
    const before = namesOf(await podsIn(key.namespace));
    await apply(key, { replicas: 2, template: template({ imagee: 'two' }) });
    const { status } = await withReason(key, 'InvalidTemplate');
    expect(status).toMatchObject({ replicas: 2, readyReplicas: 2, updatedReplicas: 0 });
    expect(namesOf(await active(key.namespace))).toEqual(before);
    expect(await removals(key.namespace)).toEqual([]);
  });

  test('whose new pods never become ready replaces only one pod, even if another one is unready for a moment', async () => {
    const key = await keyNamed('broken');
    const template = (image: string) => ({ spec: { containers: [{ name: 'c', image }] } });
    await apply(key, { replicas: 3, template: template('one') });
    await settled(key, 3);
    await withReason(key, 'PodsReady');
    await apply(key, { replicas: 3, template: template('two:missing') });
    await eventually('one is replaced', async () => {
      const { status } = await cluster.client.get(PodSet, key);
      return status?.replicas === 3 && status.updatedReplicas === 1;
    });
    await withReason(key, 'RollingOut');
    const [blinking] = (await active(key.namespace)).filter(({ spec }) => spec?.containers[0]?.image === 'one');
    if (blinking === undefined) throw new Error('there are two');
    await setReady(blinking, 'False');
    await eventually('that is seen', async () => (await cluster.client.get(PodSet, key)).status?.readyReplicas === 1);
    expect(await removals(key.namespace)).toHaveLength(1);
    const [broken] = (await active(key.namespace)).filter(({ spec }) => spec?.containers[0]?.image === 'two:missing');
    // After the correction, the broken pod is replaced first.
    await apply(key, { replicas: 3, template: template('three') });
    expect((await withReason(key, 'PodsReady')).status).toMatchObject({ updatedReplicas: 3 });
    const removed = await removals(key.namespace);
    expect(removed).toHaveLength(4);
    expect(removed[1]).toBe(broken?.metadata.name);
  });

  test('keeps five finished pods, and waits after several that ended early', async () => {
    const key = await keyNamed('ending');
    await apply(key, { replicas: 7 });
    await settled(key, 7);
    await withReason(key, 'PodsReady');
    for (const pod of await podsIn(key.namespace)) await setReady(pod, 'False', 'Failed');
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
    const key = await keyNamed('refused');
    await expect(apply(key, { replicas: 1, template })).rejects.toThrow(words);
  });

  test('is refused with more replicas than its status can name', async () => {
    const key = await keyNamed('huge');
    await expect(apply(key, { replicas: 5001 })).rejects.toThrow('should be less than or equal to 5000');
    await apply(key, { replicas: 0 });
    await expect(scale(cluster.client, PodSet, key, 50_000)).rejects.toThrow('5000');
  });
});

describe('a PodSet among other pods and PodSets', () => {
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

  test('counts only its own pods', async () => {
    const key = await keyNamed('counting');
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

  test('deletes neither a terminating pod nor a pod of another controller', async () => {
    const key = await keyNamed('deleting');
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
    await scale(cluster.client, PodSet, key, 2);
    const { status } = await eventually('two pods', async () => {
      const found = await cluster.client.get(PodSet, key);
      return found.status?.replicas === 2 && found;
    });
    const removed = await removals(key.namespace);
    expect(removed).toHaveLength(1);
    expect([foreign.metadata.name, dying.metadata.name, ...(status?.podNames ?? [])]).not.toContain(removed[0]);
    await finalizers([]);
  });

  test('is not reconciled while nothing changes', async () => {
    const key = await keyNamed('resting');
    await apply(key, { replicas: 2 });
    await settled(key, 2);
    await withReason(key, 'PodsReady');
    let echos = 0;
    // The last events of its pods may still come.
    await eventually('the operator creates three Jobs, and meanwhile reconciles no PodSet', async () => {
      const before = await operator.reconciles('podset');
      for (const end = echos + 3; echos < end; echos += 1) {
        const echo = { ...key, name: `echo-${echos}` };
        await cluster.client.create(Echo, echoManifest(echo, { message: 'hello' }));
        await cluster.job(echo);
      }
      return (await operator.reconciles('podset')) === before;
    });
  });
});

test('a restart of the operator writes nothing', async () => {
  const key = await keyNamed('lasting');
  await apply(key, { replicas: 3 });
  await settled(key, 3);
  await withReason(key, 'PodsReady');
  // The operator sends its last Events when it stops.
  await operator.stop();
  const before = await operatorWrites(cluster.auditLog, key.namespace);
  await restartOperator();
  await operator.waitUntilIdle('podset');
  expect(await operatorWrites(cluster.auditLog, key.namespace)).toEqual(before);
});

test('an operator that is killed while it creates pods and started again creates the missing ones', async () => {
  const key = await keyNamed('killed');
  await apply(key, { replicas: 60 });
  await eventually('some are there', async () => (await creations(key.namespace, 201)) >= 10);
  await restartOperator('SIGKILL');
  await settled(key, 60);
  // As many as may have been under way in that moment.
  expect((await removals(key.namespace)).length).toBeLessThanOrEqual(32);
});
