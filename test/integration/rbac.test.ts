import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { parse, stringify } from 'yaml';
import { Echo, PodSet, ScheduledEcho } from '../../src/api/index.ts';
import { CronJob, Pod } from '../../src/controllers/built-in-kinds.ts';
import { findCondition, type KubeObject, type ObjectKey, type StandardStatus } from '../../src/runtime/index.ts';
import { ensureBinaries } from '../../tools/index.ts';
import { TestCluster } from './environment/cluster.ts';
import { echoManifest, echoWithReason } from './environment/echos.ts';
import { eventually } from './environment/eventually.ts';
import { OperatorProcess } from './environment/operator-process.ts';

const chart = join(import.meta.dirname, '../../charts/echoperator');
const serviceAccount = 'echoperator';
let folder: string;
let cluster: TestCluster;
let namespace: string;
let kubeconfig: string;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'rbac-'));
  kubeconfig = await kubeconfigOfTheChart();
});

afterAll(async () => {
  await kubectl(['delete', 'clusterrole,clusterrolebinding', '--selector=app.kubernetes.io/name=echoperator']);
  await cluster?.close();
  await rm(folder, { recursive: true, force: true });
});

async function kubectl(args: readonly string[], input?: string): Promise<string> {
  const binaries = await ensureBinaries(['kubectl']);
  const env = { KUBECONFIG: cluster.kubeconfig };
  return (await execa(binaries.get('kubectl') ?? '', args, { env, ...(input !== undefined && { input }) })).stdout;
}

/** Makes the chart's service account and roles, and nothing else of it; returns a kubeconfig with its token. */
async function kubeconfigOfTheChart(): Promise<string> {
  const helm = (await ensureBinaries(['helm'])).get('helm') ?? '';
  const shown = ['serviceaccount.yaml', 'rbac/operator.yaml'].flatMap((file) => ['--show-only', `templates/${file}`]);
  const name = ['--set', `fullnameOverride=${serviceAccount}`];
  const { stdout } = await execa(helm, ['template', 'release', chart, '--namespace', namespace, ...name, ...shown]);
  await kubectl(['apply', '--filename=-'], stdout);
  const token = await kubectl(['create', 'token', serviceAccount, '--namespace', namespace]);
  const config = parse(await readFile(cluster.kubeconfig, 'utf8'));
  config.users = config.users.map(({ name }: { name: string }) => ({ name, user: { token } }));
  const path = join(folder, 'kubeconfig');
  await writeFile(path, stringify(config));
  return path;
}

const reasonOf = async (kind: typeof ScheduledEcho | typeof PodSet, key: ObjectKey) =>
  findCondition(
    (await cluster.client.get<KubeObject & { status?: StandardStatus }>(kind, key)).status?.conditions,
    'Ready',
  )?.reason;

test("the chart's role is enough for the other kinds too", async () => {
  const operator = await OperatorProcess.start(kubeconfig);
  const key = { name: 'also-allowed', namespace };
  let output: string;
  try {
    const metadata = { ...key, generation: 0 };
    await cluster.client.create(ScheduledEcho, { metadata, spec: { message: 'hello', schedule: '@hourly' } });
    await eventually('it is scheduled', async () => (await reasonOf(ScheduledEcho, key)) === 'Scheduled');
    await cluster.client.patch(ScheduledEcho, key, { type: 'merge', body: { spec: { schedule: '@daily' } } });
    await eventually('it is changed', async () => (await cluster.client.get(CronJob, key)).spec?.schedule === '@daily');
    const labels = { app: key.name, version: 'v0.1' };
    const spec = { containers: [{ name: 'c', image: 'busybox:1.36' }] };
    await cluster.client.create(Pod, { metadata: { ...key, name: 'orphan', labels }, spec });
    await cluster.client.create(PodSet, { metadata, spec: { replicas: 2 } });
    await eventually('two pods', async () => (await cluster.client.get(PodSet, key)).status?.replicas === 2);
    await cluster.client.patchScale(PodSet, key, 0);
    await eventually('no pods', async () => (await cluster.client.get(PodSet, key)).status?.replicas === 0);
  } finally {
    ({ output } = await operator.stop());
  }
  expect(output).not.toContain('Forbidden');
  expect(output).not.toContain('"level":50');
});

test("the chart's role is enough for all that the operator does, on a server that guards owner references", async () => {
  const operator = await OperatorProcess.start(kubeconfig);
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
