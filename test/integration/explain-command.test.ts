import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { findCondition, type Kind, type KubeObject, type ObjectKey } from '@echoperator/runtime';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { CronJob, ResourceQuota } from '@echoperator/runtime/kinds';
import type { ExplainAnswer } from '@echoperator/runtime/process';
import type { FaultProxy } from '@echoperator/testing';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { Pet } from '../../src/kinds/pet/kind.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { cronJobKey } from '../../testkit/cron-job-key.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess, operatorCommand } from '../../testkit/operator-process.ts';
import { proxiedKubeconfig } from '../../testkit/proxied-kubeconfig.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../testkit/with-reason.ts';

const message = 'what the user wrote: hunter2';

let folder: string;
let cluster: TestCluster;
let proxy: FaultProxy;
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
    CONTROLLERS: 'echo,scheduledEcho,podSet,pet',
    // Nothing listens there.
    PETSTORE_ADDRESS: '127.0.0.1:1',
    HA_ENABLED: 'true',
    HA_NODE_ID: 'the-leader',
  };
  const proxied = await proxiedKubeconfig(cluster.kubeconfig, folder);
  proxy = proxied.proxy;
  operator = await OperatorProcess.start(proxied.kubeconfig, settings);
});
afterAll(async () => {
  await operator?.stop('SIGKILL');
  await proxy?.[Symbol.asyncDispose]();
  await cluster?.close();
  await rm(folder, { recursive: true, force: true });
});

const create = (name: string) => cluster.client.create(Echo, echoManifest({ namespace, name }, { message }));

/** Waits until an Echo reports that its Job runs. */
const settled = (key: ObjectKey): Promise<unknown> =>
  eventually(`Echo ${key.name} reports a start time`, async () => {
    const { status } = await cluster.client.get(Echo, key);
    return status?.startTime !== undefined;
  });

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

async function answer(object: string): Promise<ExplainAnswer> {
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

  test('why was its Job replaced? The spec has changed', async () => {
    const key = { namespace, name: 'replaced' };
    await create(key.name);
    const { metadata } = await cluster.job(key);
    await settled(key);
    await cluster.client.patch(Echo, key, { type: 'merge', body: { spec: { message: `${message} again` } } });
    await cluster.job(key, metadata.uid);
    await echoWithReason(cluster, key, 'Printing');
    await eventually('the whole story is recorded', async () => {
      const steps = (await answer('echo/replaced')).explanation?.reconciles.flatMap((each) => each.steps) ?? [];
      return steps.some(({ verb, kind }) => verb === 'create' && kind === 'Job');
    });
    const told = await story('echo/replaced');
    expect(told).toMatch(/Echo modified \(spec\.message\) by test .*\n +(.*\n +)?delete Job replaced: ok/);
    expect(told).toContain('Job deleted');
    expect(told).toContain('create Job replaced: ok');
  });

  test('why did nothing happen when I edited an annotation? It ran, and all was as desired', async () => {
    const key = { namespace, name: 'annotated' };
    await create(key.name);
    await settled(key);
    await cluster.client.patch(Echo, key, { type: 'merge', body: { metadata: { annotations: { note: 'hunter2' } } } });
    const edited = /Echo modified \(metadata\.annotations\.note\) by test .*\n +done after .*sent nothing/;
    await storyWith('echo/annotated', edited);
  });

  test('who keeps changing this CronJob, and who changed it back? A field manager, and the operator', async () => {
    const key = { namespace, name: 'fought' };
    const spec = { message, schedule: '*/5 * * * *' };
    await cluster.client.apply(ScheduledEcho, customManifest(key, spec), { force: true });
    await withReason(cluster, ScheduledEcho, key, 'Scheduled');
    for (const schedule of ['1 1 * * *', '2 2 * * *']) {
      // The times of managedFields are whole seconds: in the second of the operator's last write, either may be the writer.
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

  test('why does my Pet wait? The store is down, and it is tried again then', async () => {
    const key = { namespace, name: 'waiting' };
    const spec = { name: 'hunter2', type: 'dog', birthday: '2021-04-01T00:00:00Z' } as const;
    await cluster.client.create(Pet, customManifest(key, spec));
    await withReason(cluster, Pet, key, 'PetStoreUnavailable');
    await storyWith(
      'pet/waiting',
      /PetStoreUnavailable; again at \d\d:[\s\S]*now: waits for its requeue, in .*; last reason PetStoreUnavailable/,
    );
    expect(await ready(Pet, key)).toMatchObject({
      reason: 'PetStoreUnavailable',
      message: expect.stringMatching(/^the pet store at 127\.0\.0\.1:1: .*ECONNREFUSED.* \(since .*\)$/),
    });
    // The managedFields do not tell who deletes an object.
    await cluster.client.delete(Pet, key);
    await storyWith('pet/waiting', /Pet modified \(metadata\.deletion[\w., ]+\)(?! by)/);
  });

  test('why is my PodSet at 3 and not at 5? A quota', async () => {
    const key = { namespace, name: 'short' };
    const quota = { name: 'few', namespace };
    await cluster.client.create(ResourceQuota, { metadata: quota, spec: { hard: { pods: '3' } } });
    await eventually('the quota is in force', async () => {
      const { status } = await cluster.client.get(ResourceQuota, quota);
      return status?.hard?.pods === '3';
    });
    await cluster.client.create(PodSet, customManifest(key, { replicas: 5 }));
    const told = await storyWith(
      'podset/short',
      /create Pod short-pod-\w+: 403.*\n(.*\n)* +.*quota few is exceeded for pods/,
    );
    await withReason(cluster, PodSet, key, 'PodRefused');
    expect((await ready(PodSet, key))?.message).toContain(exceededQuota(told));
    await cluster.client.delete(PodSet, key);
    await cluster.client.delete(ResourceQuota, quota);
  });

  test('why did it reconcile 40 times in a minute? Somebody edits it', async () => {
    const key = { namespace, name: 'edited' };
    await create(key.name);
    await echoWithReason(cluster, key, 'Printing');
    const edited = async (count: number) => {
      const { explanation } = await answer('echo/edited');
      const edits = explanation?.reconciles.filter(({ why }) => why.includes('annotations.note')) ?? [];
      return edits.reduce((sum, { repeated }) => sum + 1 + (repeated?.times ?? 0), 0) >= count;
    };
    for (let edit = 1; edit <= 40; edit += 1) {
      const annotations = { note: `hunter2 ${edit}` };
      await cluster.client.patch(Echo, key, { type: 'merge', body: { metadata: { annotations } } });
      await eventually(`edit ${edit} is reconciled`, () => edited(edit));
    }
    const told = await story('echo/edited');
    expect(told).toMatch(/Echo modified \(metadata\.annotations\.note\) by test .*also [123]\d times since/);
    // Nor do they tell who has removed a field.
    await cluster.client.patch(Echo, key, { type: 'merge', body: { metadata: { annotations: null } } });
    await storyWith('echo/edited', /Echo modified \(metadata\.annotations\)(?! by)/);
  });

  test('what did the operator do in this namespace in the last five minutes?', async () => {
    await create('done');
    await cluster.job({ namespace, name: 'done' });
    await echoWithReason(cluster, { namespace, name: 'done' }, 'Printing');
    const told = await printed('--since', '300', '-n', namespace);
    expect(told).toMatch(new RegExp(`Echo ${namespace}/done: Echo added.*\\n +create Job done: ok`));
    expect(await printed('--since', '300', '-n', 'kube-system')).toContain('nothing was sent');
  });

  test('why does it fail again and again? The API server fails, and the condition says so too', async () => {
    const key = { namespace, name: 'unavailable' };
    const fault = proxy.inject(
      { type: 'error-response', status: 503, reason: 'ServiceUnavailable' },
      { on: ({ verb, resource }) => verb === 'create' && resource === 'jobs' },
    );
    await create(key.name);
    await echoWithReason(cluster, key, 'ReconcileFailed');
    const { error = 'none' } = (await answer('echo/unavailable')).explanation?.reconciles.at(-1) ?? {};
    expect(error).toBe('503 ServiceUnavailable');
    expect(await ready(Echo, key)).toMatchObject({ status: 'Unknown', message: expect.stringContaining(error) });
    const told = await story('echo/unavailable');
    expect(told).toContain('create Job unavailable: 503');
    expect(told).toContain('last reason ReconcileFailed');
    fault.off();
    await echoWithReason(cluster, key, 'Printing');
  });

  test('is it stuck, and where? A request has no answer', async () => {
    const silence = proxy.inject(
      { type: 'silence' },
      { on: ({ verb, resource }) => verb === 'create' && resource === 'jobs' },
    );
    await create('stuck');
    await eventually('it creates a Job', async () => silence.count > 0);
    expect(await story('echo/stuck')).toMatch(/now: a reconcile runs for .*: create Job stuck without an answer for/);
    expect(await printed('--since', '0.001')).toMatch(
      new RegExp(`now: Echo ${namespace}/stuck: a reconcile runs for .*: create Job stuck without an answer for`),
    );
    silence.off();
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
