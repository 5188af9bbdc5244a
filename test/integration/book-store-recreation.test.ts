import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BookStore } from '../../src/api/index.ts';
import { ControllerRevision, type Pod, StatefulSet } from '../../src/controllers/built-in-kinds.ts';
import { controllerOf } from '../../src/runtime/index.ts';
import {
  addSidecar,
  apply,
  claimOf,
  cluster,
  growOnline,
  ifThere,
  imageOf,
  type Key,
  meanwhile,
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
import { eventually } from './environment/eventually.ts';

beforeAll(() => setUp('book-store-recreation'), 120_000);
afterAll(tearDown, 120_000);

describe('a StatefulSet that is made anew', () => {
  /** Brings a growth to where the StatefulSet is being deleted, and the operator is killed. */
  async function killedBetween(at: World): Promise<{ readonly statefulSet: StatefulSet; readonly pod: Pod }> {
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const statefulSet = await statefulSetOf(at.key);
    await addSidecar(StatefulSet, statefulSet);
    await meanwhile(at, 'the sidecar runs', async () => (await ifThere(podOf(at.key)))?.spec?.containers.length === 2);
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
    await meanwhile(at, 'the pod is of the new image', async () =>
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
