import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { expectNothingPlanned, expectPlannedVersions } from './environment/planned-objects.ts';

let cluster: TestCluster;

beforeEach(async () => {
  cluster = await TestCluster.connect();
});
afterEach(() => cluster.close());

test('the same version plans no write for 10,000 objects, several thousand a minute', async () => {
  const namespace = await cluster.namespace();
  const counts = { echo: 4000, scheduledEcho: 2500, podSet: 2000, bookStore: 500, pet: 500, postgresWriter: 500 };
  const { reconciled, seconds } = await expectNothingPlanned(cluster, namespace, counts, 1_500_000);
  console.log(`${reconciled} objects planned in ${seconds.toFixed(1)} s`);
  expect(reconciled / seconds).toBeGreaterThan(3000 / 60);
}, 2_000_000);

test('every version of the operator does exactly what its plan says', expectPlannedVersions, 1_500_000);
