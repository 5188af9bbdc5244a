import { findCondition, isControlledBy } from '@echoperator/runtime';
import { Event, Namespace, Pod, ResourceQuota } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { scale } from '../../testkit/scale.ts';
import {
  active,
  apply,
  cluster,
  creations,
  keyNamed,
  namesOf,
  podSetImage,
  podsIn,
  removals,
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

  test.each([
    ['with a bad value', { name: 'NOT A NAME', image: 'x' }, 'spec.containers[0].name', 422],
    ['of a wrong type', { name: 'c', image: 1 }, 'Container.spec.containers.image of type string', 400],
    ['that is unknown', { name: 'c', imagee: 'x' }, 'unknown field "spec.containers[0].imagee"', 400],
  ])('with a field %s in its template names the field and retries with backoff', async (_, container, words, code) => {
    const key = await keyNamed('wrong');
    await apply(key, { replicas: 5, template: { spec: { containers: [container] } } });
    const refused = await withReason(key, 'InvalidTemplate');
    expect(findCondition(refused.status?.conditions, 'Ready')?.message).toContain(words);
    await eventually('it is tried again', async () => (await creations(key.namespace, code)) > 1);
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
