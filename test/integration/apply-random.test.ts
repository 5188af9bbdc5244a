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

test(`${edits} edits at random of children of every kind: what is unchanged no apply would change, all else is put back`, async () => {
  const counts = await editAtRandom(cluster, seed, edits);
  console.log(`edits at random: ${JSON.stringify(counts)}`);
  expect(counts.unchanged).toBeGreaterThan(20);
  expect(counts.applied).toBeGreaterThan(20);
});
