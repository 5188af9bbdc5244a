import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { findCondition, type Kind } from '@echoperator/runtime';
import type { ReportingObject } from '@echoperator/runtime/controller';
import { Event } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BookStore, bookStoreFinalizer } from '../../src/kinds/book-store/kind.ts';
import { PostgresWriter, postgresWriterFinalizer } from '../../src/kinds/postgres-writer/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { chartRole } from '../../testkit/chart-role.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess, operatorCommand } from '../../testkit/operator-process.ts';
import { proxiedKubeconfig } from '../../testkit/proxied-kubeconfig.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../testkit/with-reason.ts';
import { kindPlans } from '../plans/index.ts';

const shop = { bookApp: { repository: 'example.com/app' }, bookDB: { repository: 'example.com/db', dbSize: '1Gi' } };
const spec = { table: 'students', name: 'Jane', age: 21, country: 'Peru' };

let cluster: TestCluster;
let folder: string;
let namespace: string;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'external-'));
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
    const operator = await OperatorProcess.start(kubeconfig, { WATCH_NAMESPACES: namespace, CONTROLLERS: 'echo' });
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

  test.each(controllerNames)('is reported on an object of %s', async (name) => {
    const kind: Kind<ReportingObject> = controllers[name].kind;
    const other = name === 'echo' ? 'scheduledEcho' : 'echo';
    const values = {
      watchNamespaces: [namespace],
      controllers: { [name]: { enabled: false }, [other]: { enabled: true } },
    };
    const kubeconfig = await chartRole(cluster.kubeconfig, { namespace, folder, values });
    const operator = await OperatorProcess.start(kubeconfig, { WATCH_NAMESPACES: namespace, CONTROLLERS: other });
    try {
      const key = { name: `off-${name.toLowerCase()}`, namespace };
      await cluster.client.apply(kind, customManifest(key, kindPlans[name].example), { force: true });
      const { status } = await withReason(cluster, kind, key, 'ControllerDisabled');
      expect(findCondition(status?.conditions, 'Ready')?.message).toContain(`--set controllers.${name}.enabled=true`);
    } finally {
      const { output } = await operator.stop();
      expect(output).not.toContain('Forbidden');
      expect(output).not.toContain('"level":50');
    }
  });

  test('says that a deletion waits, and for what', async () => {
    const operator = await OperatorProcess.start(cluster.kubeconfig, {
      WATCH_NAMESPACES: namespace,
      CONTROLLERS: 'echo',
    });
    const key = { name: 'waiting', namespace };
    const setFinalizers = (finalizers: readonly string[] | null) =>
      cluster.client.patch(BookStore, key, { type: 'merge', body: { metadata: { finalizers } } });
    try {
      await cluster.client.apply(BookStore, customManifest(key, shop), {
        force: true,
      });
      await setFinalizers([bookStoreFinalizer]);
      await withReason(cluster, BookStore, key, 'ControllerDisabled');
      await cluster.client.delete(BookStore, key);
      const { message } = await eventually('the message names the finalizer', async () => {
        const { status } = await cluster.client.get(BookStore, key);
        const ready = findCondition(status?.conditions, 'Ready');
        return ready?.message?.includes(bookStoreFinalizer) && ready;
      });
      expect(message).toContain('the deletion waits until it is enabled');
      await eventually('an Event says so too', async () => {
        const { items } = await cluster.client.list(Event, { namespace });
        return items.some(({ note, regarding }) => regarding?.name === key.name && note === message);
      });
    } finally {
      await setFinalizers(null);
      await operator.stop();
    }
  });

  test('yields to another operator that runs the controller: neither overwrites the other without end', async () => {
    const { proxy, kubeconfig } = await proxiedKubeconfig(cluster.kubeconfig, folder);
    await using operators = new AsyncDisposableStack();
    operators.defer(() => proxy.close());
    const writes = proxy.inject(
      { type: 'delayed', until: async () => {} },
      { on: ({ resource, verb }) => resource === 'scheduledechos' && verb === 'patch' },
    );
    const settings = { WATCH_NAMESPACES: namespace };
    const disabled = await OperatorProcess.start(kubeconfig, { ...settings, CONTROLLERS: 'echo' });
    let output = '';
    operators.defer(async () => {
      ({ output } = await disabled.stop());
    });
    const key = { name: 'shared', namespace };
    const spec = { message: 'hello', schedule: '@hourly' };
    await cluster.client.apply(ScheduledEcho, customManifest(key, spec), { force: true });
    await withReason(cluster, ScheduledEcho, key, 'ControllerDisabled');
    const enabled = await OperatorProcess.start(cluster.kubeconfig, { ...settings, CONTROLLERS: 'scheduledEcho' });
    operators.defer(async () => {
      await enabled.stop();
    });
    await withReason(cluster, ScheduledEcho, key, 'Scheduled');
    const before = writes.count;
    expect(before).toBeGreaterThan(0);
    for (const message of ['one', 'two', 'three', 'four']) {
      await cluster.client.patch(ScheduledEcho, key, { type: 'merge', body: { spec: { message } } });
      await withReason(cluster, ScheduledEcho, key, 'Scheduled');
    }
    expect(writes.count).toBe(before);
    await operators.disposeAsync();
    expect(output).toContain('another operator reconciles this object');
  });

  test.each([404, 403])('does not block the operator if the server answers %d', async (status) => {
    const { proxy, kubeconfig } = await proxiedKubeconfig(cluster.kubeconfig, folder);
    const missing = proxy.inject(
      { type: 'error-response', status, reason: status === 404 ? 'NotFound' : 'Forbidden' },
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
      NAMESPACE: 'ops',
      HELM_RELEASE: 'demo',
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
    expect(stderr).toContain(`  kubectl delete --namespace ${namespace} postgreswriters.demo.yash.com held\n`);
    expect(stderr).toContain('Then uninstall again: helm uninstall demo --namespace ops\n');
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
