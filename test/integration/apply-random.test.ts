import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { editAtRandom } from './environment/apply-property.ts';

// The same edits each time; apply-random.nightly.test.ts makes others.
const seed = 14;
const edits = 300;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.connect();
});
afterAll(() => cluster?.close());

test(`after ${edits} random edits of children of every kind, the applier restores what it owns, and skips only applies without effect`, async () => {
  const counts = await editAtRandom(cluster, seed, edits);
  console.log(`edits at random: ${JSON.stringify(counts)}`);
  expect(counts.unchanged).toBeGreaterThan(20);
  expect(counts.applied).toBeGreaterThan(20);
});
