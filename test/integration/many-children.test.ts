import { afterAll, beforeAll, test } from '@jest/globals';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { expectNoWriteAtRest, timeLimitMs } from './environment/many-children.ts';

const count = 20;

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.connect();
});

afterAll(() => cluster?.close());

test(
  `${count} PodSets and ${count} ScheduledEchos converge; then neither a restart nor a resync sends a write`,
  () => expectNoWriteAtRest(cluster, count),
  4 * timeLimitMs(count),
);
