import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { editAtRandom } from './environment/apply-property.ts';

const { APPLY_SEED, APPLY_EDITS } = process.env;
const seed = APPLY_SEED === undefined ? randomInt(2 ** 31) : Number(APPLY_SEED);
const edits = Number(APPLY_EDITS ?? 10_000);

jest.setTimeout(3_600_000);

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.connect();
});
afterAll(() => cluster?.close());

test(`after ${edits} random edits of children of every kind, the applier restores what it owns, and skips only applies without effect`, async () => {
  console.log(`edits at random: APPLY_SEED=${seed} APPLY_EDITS=${edits}`);
  const counts = await editAtRandom(cluster, seed, edits);
  console.log(`edits at random: ${JSON.stringify(counts)}`);
  expect(counts.unchanged).toBeGreaterThan(edits / 10);
  expect(counts.applied).toBeGreaterThan(edits / 10);
});
