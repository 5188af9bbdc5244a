import { afterEach, beforeEach, test } from '@jest/globals';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { expectBurst, expectKillsSurvived, timeLimitMs } from './environment/many-echos.ts';

/** `ECHOS` is how many there are. */
const count = Number(process.env.ECHOS ?? 2000);

let cluster: TestCluster;

beforeEach(async () => {
  cluster = await TestCluster.connect();
});

afterEach(() => cluster.close());

test(
  `${count} Echos at once have ${count} Jobs, none twice`,
  () => expectBurst(cluster, count),
  2 * timeLimitMs(count),
);

test(
  'an operator that is killed while it creates Jobs and started again creates each Job exactly once',
  () => expectKillsSurvived(cluster, count),
  2 * timeLimitMs(count),
);
