import { controllerOf } from '@echoperator/runtime';
import { isNotFound } from '@echoperator/runtime/client';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { scale } from '../../testkit/scale.ts';
import {
  active,
  apply,
  cluster,
  creations,
  keyNamed,
  namesOf,
  operator,
  removals,
  restartOperator,
  settled,
  setUp,
  tearDown,
} from './environment/pod-set-world.ts';

beforeAll(() => setUp());
afterAll(() => tearDown());

/** More than one reconcile creates. */
const many = 510;

test(`${many} pods are created over several reconciles, none too many, and removed again`, async () => {
  const key = await keyNamed('many');
  await apply(key, { replicas: many });
  expect((await settled(key, many)).status?.podNames).toEqual(namesOf(await active(key.namespace)));
  expect(await creations(key.namespace)).toBe(many);
  await scale(cluster.client, PodSet, key, 0);
  await settled(key, 0);
  expect(await removals(key.namespace)).toHaveLength(many);
});

test('an operator that is killed while it creates 200 pods, and started again, creates those that are missing', async () => {
  const key = await keyNamed('killed');
  await apply(key, { replicas: 200 });
  await eventually('some are there', async () => (await creations(key.namespace, 201)) >= 20);
  await restartOperator('SIGKILL');
  await settled(key, 200);
  // As many as may have been in flight at that moment.
  expect((await removals(key.namespace)).length).toBeLessThanOrEqual(32);
});

test('pods are made and adopted that together are larger than the heap', async () => {
  // Without a node: the pods are only stored.
  const key = { name: 'large', namespace: await cluster.namespace() };
  const replicas = 150;
  const env = Array.from({ length: 10 }, (_, index) => ({ name: `E${index}`, value: 'v'.repeat(68_000) }));
  const spec = {
    replicas,
    template: { spec: { schedulerName: 'none', containers: [{ name: 'a', image: 'a', env }] } },
  };
  const withOperator = async (act: () => Promise<void>): Promise<void> => {
    const small = await OperatorProcess.start(cluster.kubeconfig, {
      CONTROLLERS: 'podSet',
      NODE_OPTIONS: '--max-old-space-size=96',
      WATCH_NAMESPACES: key.namespace,
    });
    try {
      await act();
    } finally {
      // Fails if it had crashed.
      await small.stop();
    }
  };
  await operator.stop();
  await withOperator(async () => {
    await apply(key, spec);
    await settled(key, replicas);
  });
  const owned = async () => (await active(key.namespace)).filter((pod) => controllerOf(pod));
  await cluster.client.delete(PodSet, key, { propagationPolicy: 'Orphan' });
  const isGone = () => cluster.client.getMetadata(PodSet, key).then(() => false, isNotFound);
  await eventually('the PodSet is gone', isGone);
  expect(await owned()).toEqual([]);
  await apply(key, spec);
  await withOperator(async () => {
    await settled(key, replicas);
    expect(await owned()).toHaveLength(replicas);
  });
  await restartOperator();
});
