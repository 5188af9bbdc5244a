import { findCondition, type KubeObject, type ObjectKey } from '@echoperator/runtime';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { CronJob, Pod } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { ChartRole } from '../../testkit/chart-role.ts';
import { cronJobKey } from '../../testkit/cron-job-key.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { scale } from '../../testkit/scale.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

let cluster: TestCluster;
let role: ChartRole;
let namespace: string;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
  role = await ChartRole.install(cluster, 'echoperator', namespace);
});

afterAll(async () => {
  await role?.remove();
  await cluster?.close();
});

const reasonOf = async (kind: typeof ScheduledEcho | typeof PodSet, key: ObjectKey) =>
  findCondition(
    (await cluster.client.get<KubeObject & { status?: StandardStatus }>(kind, key)).status?.conditions,
    'Ready',
  )?.reason;

test("the chart's role is also sufficient for the other kinds", async () => {
  const operator = await OperatorProcess.start(role.kubeconfig);
  const key = { name: 'also-allowed', namespace };
  let output: string;
  try {
    const metadata = { ...key, generation: 0 };
    await cluster.client.create(ScheduledEcho, { metadata, spec: { message: 'hello', schedule: '@hourly' } });
    await eventually('it is scheduled', async () => (await reasonOf(ScheduledEcho, key)) === 'Scheduled');
    await cluster.client.patch(ScheduledEcho, key, { type: 'merge', body: { spec: { schedule: '@daily' } } });
    await eventually(
      'it is changed',
      async () => (await cluster.client.get(CronJob, cronJobKey(key))).spec?.schedule === '@daily',
    );
    const labels = { app: key.name, version: 'v0.1' };
    const spec = { containers: [{ name: 'c', image: 'busybox:1.36' }] };
    await cluster.client.create(Pod, { metadata: { ...key, name: 'orphan', labels }, spec });
    await cluster.client.create(PodSet, { metadata, spec: { replicas: 2 } });
    await eventually('two pods', async () => (await cluster.client.get(PodSet, key)).status?.replicas === 2);
    await scale(cluster.client, PodSet, key, 0);
    await eventually('no pods', async () => (await cluster.client.get(PodSet, key)).status?.replicas === 0);
  } finally {
    ({ output } = await operator.stop());
  }
  expect(output).not.toContain('Forbidden');
  expect(output).not.toContain('"level":50');
});

test("the chart's role is sufficient for the operator on a server that checks owner references", async () => {
  const operator = await OperatorProcess.start(role.kubeconfig);
  const key = { name: 'allowed', namespace };
  let output: string;
  try {
    const echo = await cluster.client.create(Echo, echoManifest(key, { message: 'first' }));
    await cluster.endPods(key);
    await echoWithReason(cluster, key, 'Printed');
    const first = await cluster.job(key);
    expect(first.metadata.ownerReferences?.[0]).toMatchObject({ uid: echo.metadata.uid, blockOwnerDeletion: true });
    await cluster.client.apply(Echo, echoManifest(key, { message: 'second' }), { force: true });
    await cluster.job(key, first.metadata.uid);
    await echoWithReason(cluster, key, 'Printing');
  } finally {
    ({ output } = await operator.stop());
  }
  expect(output).not.toContain('Forbidden');
  expect(output).not.toContain('"level":50');
});
