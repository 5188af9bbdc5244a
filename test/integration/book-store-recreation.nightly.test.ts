import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BookStore } from '../../src/api/index.ts';
import { ControllerRevision, type Pod, StatefulSet } from '../../src/controllers/built-in-kinds.ts';
import { controllerOf, findCondition } from '../../src/runtime/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { forbid } from './environment/admission-policy.ts';
import {
  addSidecar,
  apply,
  claimOf,
  cluster,
  growOnline,
  ifThere,
  imageOf,
  type Key,
  lookAgain,
  merge,
  podOf,
  settled,
  setUp,
  spec,
  startOperator,
  statefulSetOf,
  statesOf,
  stopOperator,
  tearDown,
  templateSizeOf,
  type World,
  world,
} from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-recreation'), 120_000);
afterAll(() => tearDown(), 120_000);

const statefulSetManifest = (key: Key, name: string) => {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: 'database', image: 'example.com/db:one' }] } };
  const spec = { selector: { matchLabels: labels }, template, serviceName: name, replicas: 0 };
  return { metadata: { ...key, name }, spec };
};

const imageRuns = (at: World, tag: string) =>
  eventually(`:${tag} runs`, async () =>
    (await ifThere(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(`:${tag}`),
  );

describe('a StatefulSet that cannot be made anew', () => {
  test('for it may not be deleted stays, and all else goes on', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const before = await statefulSetOf(at.key);
    const trial = { ...at.key, name: 'trial' };
    const remove = () => cluster.client.delete(StatefulSet, trial);
    const forbidden = await forbid(cluster.client, {
      namespace: at.key.namespace,
      operation: 'DELETE',
      resource: 'statefulsets',
      expression: 'false',
      message: 'nothing is deleted here',
      trial: async () => {
        await ifThere(cluster.client.get(StatefulSet, trial)).then(
          (there) => there ?? cluster.client.create(StatefulSet, statefulSetManifest(at.key, trial.name)),
        );
        await remove();
      },
    });
    try {
      await apply(at.key, spec({}, { tag: 'two', dbSize: '2Gi' }));
      await growOnline(at, '2Gi');
      const store = await settled(at, 'RecreationRefused');
      const condition = findCondition(store.status?.conditions, 'VolumeResizing');
      expect(condition?.message).toContain('nothing is deleted here');
      await imageRuns(at, 'two');
      expect((await statefulSetOf(at.key)).metadata.uid).toBe(before.metadata.uid);
    } finally {
      await forbidden.remove();
    }
    await eventually('it may be', () => remove().then(() => true));
    await lookAgain(at.key);
    await settled(at);
    expect(templateSizeOf(await statefulSetOf(at.key))).toBe('2Gi');
  }, 180_000);

  test("for what is kept has a name that is somebody else's stays, and all else goes on", async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const before = await statefulSetOf(at.key);
    const metadata = { ...at.key, name: 'shop-db-recreation' };
    const foreign = await cluster.client.create(ControllerRevision, { metadata, revision: 7, data: { mine: true } });
    await apply(at.key, spec({}, { tag: 'two', dbSize: '2Gi' }));
    await growOnline(at, '2Gi');
    const store = await settled(at, 'RecreationRefused');
    const condition = findCondition(store.status?.conditions, 'VolumeResizing');
    expect(condition?.message).toContain('ControllerRevision named shop-db-recreation');
    await imageRuns(at, 'two');
    expect((await statefulSetOf(at.key)).metadata.uid).toBe(before.metadata.uid);
    expect(await cluster.client.get(ControllerRevision, metadata)).toEqual(foreign);
    await cluster.client.delete(ControllerRevision, metadata);
    await lookAgain(at.key);
    await settled(at);
    expect(templateSizeOf(await statefulSetOf(at.key))).toBe('2Gi');
  }, 180_000);
});

describe('a StatefulSet that is made anew', () => {
  /** Brings a growth to where the StatefulSet is being deleted, and the operator is killed. */
  async function killedBetween(at: World): Promise<{ readonly statefulSet: StatefulSet; readonly pod: Pod }> {
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const statefulSet = await statefulSetOf(at.key);
    await addSidecar(StatefulSet, statefulSet);
    await eventually('the sidecar runs', async () => (await ifThere(podOf(at.key)))?.spec?.containers.length === 2);
    await settled(at);
    // It is in nobody's way but that of the deletion's end.
    const finalizers = ['test.example.com/hold'];
    await merge(StatefulSet, statefulSet, { metadata: { finalizers } });
    const pod = await podOf(at.key);
    await apply(at.key, spec({}, { tag: 'one', dbSize: '2Gi' }));
    await growOnline(at, '2Gi');
    await eventually('it is being deleted, and its pods are let go', async () => {
      const { deletionTimestamp, finalizers: left = [] } = (await statefulSetOf(at.key)).metadata;
      return deletionTimestamp !== undefined && !left.includes('orphan');
    });
    await stopOperator('SIGKILL');
    return { statefulSet, pod };
  }

  const letGo = (key: Key) =>
    merge(StatefulSet, { metadata: { ...key, name: `${key.name}-db` } }, { metadata: { finalizers: null } });

  test('also with the operator killed between the two the pods run on, with what others have added', async () => {
    const at = await world('shop');
    const { statefulSet, pod } = await killedBetween(at);
    await apply(at.key, spec({}, { tag: 'two', dbSize: '2Gi' }));
    const last = await letGo(at.key);
    await eventually('it is gone', async () => (await ifThere(statefulSetOf(at.key))) === undefined);
    const orphan = await podOf(at.key);
    expect(orphan.metadata.uid).toBe(pod.metadata.uid);
    expect(controllerOf(orphan)).toBeUndefined();
    const watch = statesOf(StatefulSet, last);
    await startOperator();
    await eventually('the pod is of the new image', async () =>
      (await ifThere(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
    );
    await settled(at);
    const [first] = await watch
      .end()
      .then((states) => states.filter(({ metadata }) => metadata.uid !== statefulSet.metadata.uid));
    if (first === undefined) throw new Error('another StatefulSet');
    // As it was, but for the size; what the BookStore asks for besides came after that.
    expect(imageOf(first, 'database')).toBe('example.com/db:one');
    expect(imageOf(first, 'sidecar')).toBe('example.com/sidecar');
    expect(templateSizeOf(first)).toBe('2Gi');
    expect(imageOf(await statefulSetOf(at.key), 'sidecar')).toBe('example.com/sidecar');
  }, 180_000);

  test('and is refused in between is told of, its pods run on, and a change of the BookStore is tried', async () => {
    const at = await world('shop');
    const { statefulSet, pod } = await killedBetween(at);
    const isOther = "object.spec.template.spec.containers.all(c, !c.image.endsWith(':one'))";
    const forbidden = await forbid(cluster.client, {
      namespace: at.key.namespace,
      operation: 'CREATE',
      resource: 'statefulsets',
      expression: isOther,
      message: 'no image is :one any more',
      trial: () => cluster.client.create(StatefulSet, statefulSetManifest(at.key, 'trial'), { dryRun: true }),
    });
    try {
      await letGo(at.key);
      await eventually('it is gone', async () => (await ifThere(statefulSetOf(at.key))) === undefined);
      await startOperator();
      const store = await settled(at, 'Orphaned');
      const { message = '', status } = findCondition(store.status?.conditions, 'DatabaseReady') ?? {};
      expect(status).toBe('False');
      expect(message).toContain('no image is :one any more');
      expect(message).toContain('its pods run on without it');
      expect((await podOf(at.key)).metadata).toMatchObject({ uid: pod.metadata.uid });
      await apply(at.key, spec({}, { tag: 'two', dbSize: '2Gi' }));
      await imageRuns(at, 'two');
      await settled(at);
    } finally {
      await forbidden.remove();
    }
    const after = await statefulSetOf(at.key);
    expect(after.metadata.uid).not.toBe(statefulSet.metadata.uid);
    expect(templateSizeOf(after)).toBe('2Gi');
    const { items } = await cluster.client.list(ControllerRevision, { namespace: at.key.namespace });
    expect(items.filter(({ metadata }) => metadata.name.endsWith('-recreation'))).toEqual([]);
  }, 180_000);

  test('a BookStore that is deleted between the two leaves nothing behind but its claim', async () => {
    const at = await world('shop');
    await killedBetween(at);
    try {
      await cluster.client.delete(BookStore, at.key);
      await letGo(at.key);
      await eventually('its pod is gone', async () => (await ifThere(podOf(at.key))) === undefined, 60_000);
      await eventually(
        'its revisions are gone',
        async () => (await cluster.client.list(ControllerRevision, { namespace: at.key.namespace })).items.length === 0,
        60_000,
      );
      expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
    } finally {
      await startOperator();
    }
  }, 180_000);
});
