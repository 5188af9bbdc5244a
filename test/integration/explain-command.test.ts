import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { findCondition, type Kind, type KubeObject, type ObjectKey } from '@echoperator/runtime';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { CronJob, ResourceQuota } from '@echoperator/runtime/kinds';
import type { ExplainResponse } from '@echoperator/runtime/process';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { cronJobKey } from '../../testkit/cron-job-key.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess, operatorCommand } from '../../testkit/operator-process.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../testkit/with-reason.ts';

const message = 'what the user wrote: hunter2';

let folder: string;
let cluster: TestCluster;
let namespace: string;
let operator: OperatorProcess;
let settings: Readonly<Record<string, string>>;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'explain-'));
  namespace = await cluster.namespace();
  settings = {
    EXPLAIN_DIR: folder,
    NAMESPACE: namespace,
    WATCH_NAMESPACES: namespace,
    CONTROLLERS: 'echo,scheduledEcho',
    HA_ENABLED: 'true',
    HA_NODE_ID: 'the-leader',
  };
  operator = await OperatorProcess.start(cluster.kubeconfig, settings);
});
afterAll(async () => {
  await operator?.stop('SIGKILL');
  await cluster?.close();
  await rm(folder, { recursive: true, force: true });
});

const create = (name: string) => cluster.client.create(Echo, echoManifest({ namespace, name }, { message }));

/** What the command prints. Never a value of a spec. */
async function printed(...args: readonly string[]): Promise<string> {
  const { stdout, stderr, exitCode } = await operatorCommand(['explain', ...args], settings);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout).not.toContain('hunter2');
  return String(stdout);
}

const story = (object: string, where = namespace): Promise<string> => printed(object, '-n', where);

/** Waits until the command prints this, and returns all that it prints. */
async function storyWith(object: string, pattern: RegExp): Promise<string> {
  let told = '';
  const hasPattern = async () => {
    told = await story(object);
    return pattern.test(told);
  };
  await eventually(`explain ${object} prints ${pattern}`, hasPattern).catch((cause: unknown) => {
    throw new Error(`explain ${object} never printed ${pattern}, but ${told}`, { cause });
  });
  return told;
}

/** The condition from which those learn the cause who may not use the command. */
async function ready<T extends KubeObject & { readonly status?: StandardStatus }>(kind: Kind<T>, key: ObjectKey) {
  const { status } = await cluster.client.get(kind, key);
  return findCondition(status?.conditions, 'Ready');
}

/** What the command calls the exceeded quota, in the words of the API server, which the condition quotes. */
function exceededQuota(told: string): string {
  const [, quota, resource] = /quota (\S+) is exceeded for (\S+?)(;|$)/m.exec(told) ?? [];
  return `exceeded quota: ${quota}, requested: ${resource}=`;
}

async function answer(object: string): Promise<ExplainResponse> {
  const { stdout } = await operatorCommand(['explain', object, '-n', namespace, '--json'], settings);
  expect(stdout).not.toContain('hunter2');
  return JSON.parse(String(stdout));
}

describe('explain answers', () => {
  test('why has my Echo no Job? A quota', async () => {
    const quota = { name: 'none', namespace };
    await cluster.client.create(ResourceQuota, { metadata: quota, spec: { hard: { 'count/jobs.batch': '0' } } });
    await eventually('the quota is in force', async () => {
      const { status } = await cluster.client.get(ResourceQuota, quota);
      return status?.hard?.['count/jobs.batch'] === '0';
    });
    await create('refused');
    await echoWithReason(cluster, { namespace, name: 'refused' }, 'Refused');
    await eventually('it was tried again', async () => ((await answer('echo/refused')).explanation?.total ?? 0) > 3);
    const told = await story('echo/refused');
    expect(told).toContain('create Job refused: 403');
    expect(told).toContain('Refused; 403 Forbidden; quota none is exceeded for count/jobs.batch');
    expect(told).toMatch(/retry \d+/);
    expect((await ready(Echo, { namespace, name: 'refused' }))?.message).toContain(exceededQuota(told));
    await cluster.client.delete(ResourceQuota, quota);
    await cluster.job({ namespace, name: 'refused' });
  });

  test('who keeps changing this CronJob, and who changed it back? A field manager, and the operator', async () => {
    const key = { namespace, name: 'fought' };
    const spec = { message, schedule: '*/5 * * * *' };
    await cluster.client.apply(ScheduledEcho, customManifest(key, spec), { force: true });
    await withReason(cluster, ScheduledEcho, key, 'Scheduled');
    for (const schedule of ['1 1 * * *', '2 2 * * *']) {
      // The times of managedFields are whole seconds: in the second of the operator's last write, either may be the
      // writer.
      await delay(1000);
      const changed = { metadata: cronJobKey(key), spec: { schedule } } as CronJob;
      await cluster.client.apply(CronJob, changed, { force: true, fieldManager: 'meddler' });
      await eventually(
        'it is changed back',
        async () => (await cluster.client.get(CronJob, cronJobKey(key))).spec?.schedule === spec.schedule,
      );
    }
    await storyWith(
      'scheduledecho/fought',
      /CronJob modified \(spec\.schedule\) by .*meddler.*also 1 time since .*\n +apply CronJob fought-[0-9a-f]{10} \(.*spec\.schedule.*\): ok/,
    );
  });

  test('what did the operator do in this namespace in the last five minutes?', async () => {
    await create('done');
    await cluster.job({ namespace, name: 'done' });
    await echoWithReason(cluster, { namespace, name: 'done' }, 'Printing');
    const told = await printed('--since', '300', '-n', namespace);
    expect(told).toMatch(new RegExp(`Echo ${namespace}/done: Echo added.*\\n +create Job done: ok`));
    expect(await printed('--since', '300', '-n', 'kube-system')).toContain('nothing was sent');
  });

  test('which replica leads?', async () => {
    expect((await answer('echo/any')).leader).toMatchObject({
      identity: expect.stringMatching(/^the-leader_/),
      isThisReplica: true,
    });
    expect(await story('echo/any')).toMatch(/leader: the-leader_\S+, this replica, since \d{4}-/);
  });

  test('why the operator does not reconcile an object', async () => {
    expect(await story('echo/nowhere')).toContain('not in the cache');
    expect(await story('echo/x', 'kube-system')).toContain('outside the watched namespaces');
    const disabled = 'the controller of PostgresWriter is disabled (controllers.postgresWriter.enabled)';
    expect(await story('postgreswriter/x')).toContain(disabled);
    const { exitCode, stderr } = await operatorCommand(['explain', 'pod/x'], settings);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('this operator reconciles no kind pod');
  });
});

test('which replica leads, since when, why did leadership move? The leader has released the Lease', async () => {
  const former = settings;
  settings = { ...settings, EXPLAIN_DIR: join(folder, 'standby'), HA_NODE_ID: 'the-standby' };
  const standby = await OperatorProcess.start(cluster.kubeconfig, settings);
  expect(await story('echo/any')).toMatch(
    /this replica does not lead.*\n(.*\n)*leader: the-leader_\S+, observed at \d/,
  );
  await operator.stop();
  operator = standby;
  await eventually('it leads', async () => (await answer('echo/any')).leader?.isThisReplica);
  const since = new Date().getUTCFullYear();
  const leads = `leader: the-standby_\\S+, this replica, since ${since}-.*: the lease was released by the-leader_`;
  expect(await story('echo/any')).toMatch(new RegExp(leads));
  expect((await operatorCommand(['explain', 'echo/any'], former)).exitCode).toBe(1);
});

test('without EXPLAIN_DIR, and without an operator, the command fails and says why', async () => {
  const without = await operatorCommand(['explain', 'echo/a'], {});
  expect(without).toMatchObject({
    exitCode: 1,
    stderr: 'echoperator: EXPLAIN_DIR is not set: this operator records nothing',
  });
  const nobody = await operatorCommand(['explain', 'echo/a'], { EXPLAIN_DIR: join(folder, 'nobody') });
  expect(nobody.exitCode).toBe(1);
  expect(nobody.stderr).toContain('no operator answers');
  expect((await operatorCommand(['explain'], {})).exitCode).toBe(2);
});
