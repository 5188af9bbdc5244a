import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from '../../testkit/seeded-fast-check.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { BuiltInComparison, builtInCases } from './environment/built-in-property.ts';

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.connect();
});
afterAll(() => cluster?.close());

const cases = Number(process.env.SIMULATED_BUILT_INS_CASES ?? 100);

test(`the simulated server stores ${cases} random built-in objects and changes as the API server does, or refuses them with the same code`, async () => {
  const comparison = new BuiltInComparison(cluster.client, await cluster.namespace());
  await fc.assert(
    fc.asyncProperty(builtInCases, (each) => comparison.compare(each)),
    { numRuns: cases },
  );
  const { notValidated, ...counts } = comparison.counts;
  console.log(
    JSON.stringify({ ...counts, notValidated: [...notValidated.values()].reduce((sum, one) => sum + one, 0) }),
  );
  expect(counts.equal).toBeGreaterThan(cases / 2);
  expect(counts.refused).toBeGreaterThan(0);
});
