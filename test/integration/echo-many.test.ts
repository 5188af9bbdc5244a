import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { expectKillsSurvived } from './environment/many-echos.ts';

let cluster: TestCluster;

beforeEach(async () => {
  cluster = await TestCluster.connect();
});

afterEach(() => cluster.close());

test(
  'an operator that is killed while it creates Jobs and started again creates each Job exactly once',
  () => expectKillsSurvived(cluster, 40),
  180_000,
);

test('a restart writes nothing', async () => {
  const namespace = await cluster.namespace();
  const keys = ['done', 'running'].map((name) => ({ name, namespace }));
  const first = await OperatorProcess.start(cluster.kubeconfig);
  try {
    for (const key of keys) await cluster.client.create(Echo, echoManifest(key, { message: key.name }));
    for (const key of keys) await echoWithReason(cluster, key, 'Printing');
    await cluster.endPods({ name: 'done', namespace });
    await echoWithReason(cluster, { name: 'done', namespace }, 'Printed');
  } finally {
    await first.stop();
  }
  const before = await operatorWrites(cluster.auditLog, namespace);
  const second = await OperatorProcess.start(cluster.kubeconfig);
  try {
    await second.waitUntilIdle('echo', keys.length);
  } finally {
    await second.stop();
  }
  expect(await operatorWrites(cluster.auditLog, namespace)).toEqual(before);
});
