import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PostgresWriter, postgresWriterFinalizer } from '../../src/api/index.ts';
import { findCondition } from '../../src/runtime/index.ts';
import { chartRole } from '../../testkit/chart-role.ts';
import { OperatorProcess, operatorCommand } from '../../testkit/operator-process.ts';
import { proxiedKubeconfig } from '../../testkit/proxied-kubeconfig.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { withReason } from '../../testkit/with-reason.ts';

const spec = { table: 'students', name: 'Jane', age: 21, country: 'Peru' };

let cluster: TestCluster;
let folder: string;
let namespace: string;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'outside-'));
});

afterAll(async () => {
  await cluster?.close();
  await rm(folder, { recursive: true, force: true });
});

const create = (name: string, finalizers?: readonly string[]) =>
  cluster.client.create(PostgresWriter, {
    metadata: { name, namespace, generation: 0, ...(finalizers && { finalizers }) },
    spec,
  });

describe('a kind whose controller is off', () => {
  test("is reported on its objects with the chart's role, and nothing else is done", async () => {
    const values = { watchNamespaces: [namespace] };
    const kubeconfig = await chartRole(cluster.kubeconfig, { namespace, folder, values });
    const operator = await OperatorProcess.start(kubeconfig, { WATCH_NAMESPACES: namespace });
    try {
      await create('off');
      const key = { name: 'off', namespace };
      const { metadata, status } = await withReason(cluster, PostgresWriter, key, 'ControllerDisabled');
      const ready = findCondition(status?.conditions, 'Ready');
      expect(ready).toMatchObject({ status: 'False', observedGeneration: 1 });
      expect(ready?.message).toContain('controllers.postgresWriter.enabled');
      expect(Object.keys(status ?? {})).toEqual(['conditions']);
      expect(metadata.finalizers).toBeUndefined();
      await cluster.client.patch(PostgresWriter, key, { type: 'merge', body: { spec: { age: 22 } } });
      await withReason(cluster, PostgresWriter, key, 'ControllerDisabled');
    } finally {
      const { output } = await operator.stop();
      expect(output).not.toContain('Forbidden');
      expect(output).not.toContain('"level":50');
    }
  });

  test.each([404, 403])('does not block the operator if the server answers %d', async (status) => {
    const { proxy, kubeconfig } = await proxiedKubeconfig(cluster.kubeconfig, folder);
    const missing = proxy.inject(
      { type: 'answer', status, reason: status === 404 ? 'NotFound' : 'Forbidden' },
      { on: ({ resource }) => resource === 'postgreswriters' },
    );
    const operator = await OperatorProcess.start(kubeconfig, { WATCH_NAMESPACES: namespace });
    try {
      expect(missing.count).toBeGreaterThan(0);
      const name = `late-${status}`;
      await create(name);
      missing.off();
      await withReason(cluster, PostgresWriter, { name, namespace }, 'ControllerDisabled');
    } finally {
      await operator.stop();
      await proxy.close();
    }
  });
});

describe('check-uninstall', () => {
  const check = (watched: string) =>
    operatorCommand(['check-uninstall'], {
      KUBECONFIG: cluster.kubeconfig,
      WATCH_NAMESPACES: watched,
      LOG_LEVEL: 'info',
    });

  test('allows the uninstallation if no object has a finalizer of the operator', async () => {
    await create('free');
    expect(await check(namespace)).toMatchObject({ exitCode: 0, stderr: '' });
  });

  test('rejects the uninstallation and lists the objects with a finalizer of the operator', async () => {
    await create('held', ['example.com/others', postgresWriterFinalizer]);
    const { exitCode, stderr } = await check(namespace);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`  postgreswriters.demo.yash.com ${namespace}/held\n`);
    expect(stderr).not.toContain('/free');
    const elsewhere = await cluster.namespace();
    expect((await check(elsewhere)).exitCode).toBe(0);
    await cluster.client.patch(
      PostgresWriter,
      { name: 'held', namespace },
      { type: 'merge', body: { metadata: { finalizers: null } } },
    );
    expect((await check(namespace)).exitCode).toBe(0);
  });
});
