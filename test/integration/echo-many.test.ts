import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Echo } from '../../src/api/index.ts';
import { Job } from '../../src/controllers/built-in-kinds.ts';
import { findCondition, keyString } from '../../src/runtime/index.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { jobsCreated, operatorWrites } from '../../testkit/operator-writes.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

let cluster: TestCluster;

beforeEach(async () => {
  cluster = await TestCluster.connect();
});

afterEach(() => cluster.close());

const created = async (namespace: string) => jobsCreated(await operatorWrites(cluster.auditLog, namespace));
const once = (names: readonly string[]) => new Map([...names].sort().map((name) => [name, 1]));
const sorted = (counts: ReadonlyMap<string, number>) => new Map([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));

/** Creates Echos sixteen at a time. */
async function createEchos(namespace: string, names: readonly string[]): Promise<void> {
  const left = [...names];
  const writer = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      await cluster.client.create(Echo, echoManifest({ name, namespace }, { message: name }));
    }
  };
  await Promise.all(Array.from({ length: 16 }, writer));
}

/** Waits until every Echo in the namespace says that its Job prints. */
const allPrinting = (namespace: string, count: number) =>
  eventually(
    `${count} Echos have a Job`,
    async () => {
      const { items } = await cluster.client.list(Echo, { namespace });
      return (
        items.filter(({ status }) => findCondition(status?.conditions, 'Ready')?.reason === 'Printing').length === count
      );
    },
    120_000,
  );

test('500 Echos at once have 500 Jobs, none twice', async () => {
  const operator = await OperatorProcess.start(cluster.kubeconfig);
  try {
    const namespace = await cluster.namespace();
    const names = Array.from({ length: 500 }, (_, i) => `many-${i}`);
    const startedAtMs = performance.now();
    await createEchos(namespace, names);
    await allPrinting(namespace, names.length);
    const seconds = (performance.now() - startedAtMs) / 1000;
    process.stdout.write(`500 Echos, each with its Job, its status and its Event, after ${seconds.toFixed(1)} s\n`);
    expect(sorted(await created(namespace))).toEqual(once(names));
    const { items } = await cluster.client.list(Job, { namespace });
    expect(items).toHaveLength(names.length);
  } finally {
    await operator.stop();
  }
}, 180_000);

test('an operator killed in the middle and started again makes no Job twice and forgets none', async () => {
  const namespace = await cluster.namespace();
  const names = Array.from({ length: 200 }, (_, i) => `restart-${i}`);
  let operator = await OperatorProcess.start(cluster.kubeconfig);
  try {
    const creating = createEchos(namespace, names);
    for (const part of [20, 80, 140]) {
      await eventually(`${part} Jobs are there`, async () => (await created(namespace)).size >= part);
      await operator.stop('SIGKILL');
      operator = await OperatorProcess.start(cluster.kubeconfig);
    }
    await creating;
    await allPrinting(namespace, names.length);
    const { items } = await cluster.client.list(Job, { namespace });
    expect(items.map(({ metadata }) => metadata.name).sort()).toEqual([...names].sort());
    const twice = [...(await created(namespace))].filter(([, count]) => count > 1);
    expect(twice).toEqual([]);
  } finally {
    await operator.stop();
  }
}, 180_000);

test('a restart sends no write', async () => {
  const namespace = await cluster.namespace();
  const keys = ['done', 'running'].map((name) => ({ name, namespace }));
  const first = await OperatorProcess.start(cluster.kubeconfig);
  try {
    await createEchos(namespace, ['done', 'running']);
    for (const key of keys) await echoWithReason(cluster, key, 'Printing');
    await cluster.endPods({ name: 'done', namespace });
    await echoWithReason(cluster, { name: 'done', namespace }, 'Printed');
  } finally {
    await first.stop();
  }
  const before = await operatorWrites(cluster.auditLog, namespace);
  const second = await OperatorProcess.start(cluster.kubeconfig);
  try {
    const reconciled = /^controller_runtime_reconcile_total\{controller="echo",result="success"\} (\d+)$/m;
    await eventually(`${keys.map(keyString).join(' and ')} have been reconciled`, async () => {
      return Number(reconciled.exec(await second.metrics())?.[1]) >= 2;
    });
  } finally {
    await second.stop();
  }
  expect(await operatorWrites(cluster.auditLog, namespace)).toEqual(before);
});
