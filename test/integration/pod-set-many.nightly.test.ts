import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { PodSet } from '../../src/api/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import {
  active,
  apply,
  cluster,
  creations,
  keyNamed,
  namesOf,
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
  await cluster.client.patchScale(PodSet, key, 0);
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
