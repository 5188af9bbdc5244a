import { findCondition, isControlledBy } from '@echoperator/runtime';
import { Event, Job, Namespace, ResourceQuota } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { failPull } from '../../testkit/failing-pull.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { jobsCreated, operatorWrites } from '../../testkit/operator-writes.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { blockWithUnreachableWebhook } from './environment/admission-policy.ts';

let cluster: TestCluster;
let operator: OperatorProcess;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  operator = await OperatorProcess.start(cluster.kubeconfig);
});

afterAll(async () => {
  await operator?.stop();
  await cluster?.close();
});

const create = (namespace: string, name: string, spec: Echo['spec']) =>
  cluster.client.create(Echo, echoManifest({ name, namespace }, spec));

/** Applies a new message like a user's `kubectl apply`. */
const setMessage = (key: { name: string; namespace: string }, message: string) =>
  cluster.client.apply(Echo, echoManifest(key, { message }), { force: true });

const created = async (namespace: string) => jobsCreated(await operatorWrites(cluster.auditLog, namespace));

/** Resolves when the operator has reconciled an Echo at least once more, and has none left to reconcile. */
async function afterAnotherReconcile(act: () => Promise<unknown>): Promise<void> {
  const before = await operator.reconciles('echo');
  await act();
  await operator.waitUntilIdle('echo', before + 1);
}

describe('an Echo', () => {
  test('runs one Job in its own namespace and reports it', async () => {
    const key = { name: 'hello', namespace: await cluster.namespace() };
    const echo = await create(key.namespace, key.name, { message: 'Hola, 世界!' });

    const job = await cluster.job(key);
    expect(isControlledBy(job, echo)).toBe(true);
    expect(job.spec?.template.spec?.restartPolicy).toBe('Never');
    expect(job.spec?.template.spec?.containers.map(({ image, command }) => ({ image, command }))).toEqual([
      { image: 'busybox:1.36', command: ['printf', '%s\\n', 'Hola, 世界!'] },
    ]);
    const printing = await echoWithReason(cluster, key, 'Printing');
    expect(printing.status).toMatchObject({ jobName: 'hello', observedGeneration: 1 });

    await cluster.endPods(key);
    const printed = await echoWithReason(cluster, key, 'Printed');
    expect(printed.status).toMatchObject({ phase: 'Succeeded', completedGeneration: 1, jobName: 'hello' });
    expect(findCondition(printed.status?.conditions, 'Ready')).toMatchObject({ status: 'True', observedGeneration: 1 });
    expect(Date.parse(printed.status?.completionTime ?? '')).not.toBeNaN();

    const reasons = await eventually('both events are there', async () => {
      const { items } = await cluster.client.list(Event, { namespace: key.namespace });
      const ours = items.filter(({ regarding }) => regarding?.kind === 'Echo' && regarding.uid === echo.metadata.uid);
      return ours.length === 2 && ours.map(({ reason, type }) => `${type} ${reason}`);
    });
    expect(reasons.sort()).toEqual(['Normal Printed', 'Normal Printing']);
  });

  test('with a new message replaces its Job: the old one is gone before the new one is created', async () => {
    const key = { name: 'changing', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'first' });
    const first = await cluster.job(key);
    await echoWithReason(cluster, key, 'Printing');

    await setMessage(key, 'second');
    const second = await cluster.job(key, first.metadata.uid);
    expect(second.spec?.template.spec?.containers[0]?.command).toContain('second');
    await echoWithReason(cluster, key, 'Printing');
    await cluster.endPods(key);
    expect((await echoWithReason(cluster, key, 'Printed')).status?.completedGeneration).toBe(2);
    expect(await created(key.namespace)).toEqual(new Map([['changing', 2]]));
  });

  test('creates its Job again if it is deleted before it completes', async () => {
    const key = { name: 'again', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'still to be printed' });
    const first = await cluster.job(key);
    await cluster.client.delete(Job, key);
    const second = await cluster.job(key, first.metadata.uid);
    expect(second.spec?.template.spec?.containers[0]?.command).toContain('still to be printed');
  });

  test('reports a Job that it creates again', async () => {
    const key = { name: 'told', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'still to be printed' });
    await echoWithReason(cluster, key, 'Printing');
    await cluster.client.delete(Job, key);
    await eventually('an Event tells of it', async () => {
      const { items } = await cluster.client.list(Event, { namespace: key.namespace });
      return items.some(({ reason }) => reason === 'JobRecreated');
    });
  });

  test('says why its pod does not start until it starts', async () => {
    const key = { name: 'stuck', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'not yet' });
    const [pod] = await eventually('its Job has a pod', async () => {
      const pods = await cluster.podsOf(key);
      return pods.length > 0 && pods;
    });
    if (pod === undefined) throw new Error('there is one');
    const message = async () =>
      findCondition((await cluster.client.get(Echo, key)).status?.conditions, 'Ready')?.message;
    // The second time the Job, which counts its pods, does not change.
    for (const image of ['busybox:nil', 'busybox:none']) {
      await failPull(cluster.client, pod.metadata, image);
      const why = `pod ${pod.metadata.name}: ImagePullBackOff: Back-off pulling image "${image}"`;
      await eventually('the status says why', async () => (await message())?.includes(why));
    }
    await cluster.endPods(key);
    expect(findCondition((await echoWithReason(cluster, key, 'Printed')).status?.conditions, 'Ready')?.message).toBe(
      'Job stuck has printed the message',
    );
  });

  test('that is deleted and created again at once waits for the garbage collector, without a warning', async () => {
    const key = { name: 'replaced', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'first' });
    const { uid } = (await cluster.job(key)).metadata;
    // Held up, so that what comes first is no matter of luck.
    const finalizers = (list: readonly string[]) =>
      cluster.client.patch(Job, key, { type: 'merge', body: { metadata: { finalizers: list } } });
    await finalizers(['test.example/stays']);
    await cluster.client.delete(Echo, key);
    await create(key.namespace, key.name, { message: 'second' });
    await echoWithReason(cluster, key, 'Replacing');
    await finalizers([]);
    await echoWithReason(cluster, key, 'Printing');
    expect((await cluster.job(key)).metadata.uid).not.toBe(uid);
    const { items } = await cluster.client.list(Event, { namespace: key.namespace });
    expect(items.map(({ reason }) => reason)).not.toContain('NameTaken');
  });

  test('does not create its Job again if it is deleted after it completed', async () => {
    const key = { name: 'once', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'printed once' });
    await cluster.endPods(key);
    await echoWithReason(cluster, key, 'Printed');
    await afterAnotherReconcile(() => cluster.client.delete(Job, key));
    await eventually('the Job is gone', () => cluster.isGone(() => cluster.client.get(Job, key)));
    expect(await created(key.namespace)).toEqual(new Map([['once', 1]]));
    expect((await cluster.client.get(Echo, key)).status?.phase).toBe('Succeeded');
  });

  test('that was printed stays Printed if another Job with its name is created', async () => {
    const key = { name: 'printed', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'printed for good' });
    await cluster.endPods(key);
    const { status } = await echoWithReason(cluster, key, 'Printed');
    await cluster.client.delete(Job, key);
    await eventually('the Job is gone', () => cluster.isGone(() => cluster.client.get(Job, key)));
    const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'other', image: 'busybox:1.36' }] } };
    await afterAnotherReconcile(() => cluster.client.create(Job, { metadata: key, spec: { suspend: true, template } }));
    await afterAnotherReconcile(() => cluster.client.delete(Job, key));
    expect((await cluster.client.get(Echo, key)).status).toEqual(status);
    expect(await created(key.namespace)).toEqual(new Map([['printed', 1]]));
  });

  test('whose Job is deleted when it completes runs it once', async () => {
    const namespace = await cluster.namespace();
    const keys = Array.from({ length: 10 }, (_, i) => ({ name: `brief-${i}`, namespace }));
    await Promise.all(keys.map(({ name }) => create(namespace, name, { message: name, ttlSecondsAfterFinished: 0 })));
    await Promise.all(keys.map((key) => cluster.endPods(key)));
    for (const key of keys) {
      const echo = await echoWithReason(cluster, key, 'Printed');
      expect(echo.status?.completedGeneration).toBe(1);
      await eventually(`Job ${key.name} is gone`, () => cluster.isGone(() => cluster.client.get(Job, key)));
    }
    expect(await created(namespace)).toEqual(new Map(keys.map(({ name }) => [name, 1])));
  });

  test('that is deleted leaves nothing behind', async () => {
    const key = { name: 'gone', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'soon gone' });
    await eventually('its Job has a pod', async () => (await cluster.podsOf(key)).length > 0);
    await cluster.client.delete(Echo, key);
    await eventually('the Job is gone', () => cluster.isGone(() => cluster.client.get(Job, key)));
    await eventually('its pods are gone', async () => (await cluster.podsOf(key)).length === 0);
    expect(await created(key.namespace)).toEqual(new Map([['gone', 1]]));
  });

  test('whose Job fails says why', async () => {
    const key = { name: 'failing', namespace: await cluster.namespace() };
    await create(key.namespace, key.name, { message: 'never printed' });
    const failed = (async () => echoWithReason(cluster, key, 'JobFailed'))();
    // The job controller makes a new pod after each failure, seven in all; a deadline ends the tries sooner.
    await cluster.job(key);
    const job = await cluster.client.get(Job, key);
    await cluster.client.apply(
      Job,
      { metadata: { ...key }, spec: { activeDeadlineSeconds: 1 } } as unknown as Parameters<
        typeof cluster.client.apply<typeof job>
      >[1],
      { force: true },
    );
    const echo = await failed;
    expect(echo.status?.phase).toBe('Failed');
    expect(findCondition(echo.status?.conditions, 'Ready')?.message).toContain('deadline');
    expect(echo.status?.completedGeneration).toBeUndefined();
  });

  test('with the same name in two namespaces has a Job in each', async () => {
    const [one, two] = [await cluster.namespace(), await cluster.namespace()];
    await create(one, 'twin', { message: 'one' });
    await create(two, 'twin', { message: 'two' });
    const command = async (namespace: string) =>
      (await cluster.job({ name: 'twin', namespace })).spec?.template.spec?.containers[0]?.command;
    expect(await command(one)).toContain('one');
    expect(await command(two)).toContain('two');
  });

  test('with a long name runs a Job with a shorter one, named in its status', async () => {
    const namespace = await cluster.namespace();
    const names = ['a', 'b'].map((last) => `${'long-'.repeat(40)}${last}`);
    await Promise.all(names.map((name) => create(namespace, name, { message: name })));
    const jobNames = await Promise.all(
      names.map(async (name) => (await echoWithReason(cluster, { name, namespace }, 'Printing')).status?.jobName ?? ''),
    );
    expect(new Set(jobNames).size).toBe(2);
    for (const name of jobNames) {
      expect(name.length).toBeLessThanOrEqual(63);
      await eventually('its pod exists', async () => (await cluster.podsOf({ name, namespace })).length > 0);
    }
  });
});

describe('a Job of another owner with the Echo’s name', () => {
  test('stays unchanged, is reported, and is replaced by ours when it is deleted', async () => {
    const key = { name: 'taken', namespace: await cluster.namespace() };
    const foreign = await cluster.client.create(Job, {
      metadata: key,
      spec: {
        suspend: true,
        template: { spec: { restartPolicy: 'Never', containers: [{ name: 'other', image: 'busybox:1.36' }] } },
      },
    });
    await create(key.namespace, key.name, { message: 'mine' });
    const echo = await echoWithReason(cluster, key, 'NameTaken');
    expect(findCondition(echo.status?.conditions, 'Ready')).toMatchObject({ status: 'False' });
    expect(findCondition(echo.status?.conditions, 'Ready')?.message).toContain('taken');
    await eventually('a warning tells of it', async () => {
      const { items } = await cluster.client.list(Event, { namespace: key.namespace });
      return items.some(({ type, reason }) => type === 'Warning' && reason === 'NameTaken');
    });
    const writes = await operatorWrites(cluster.auditLog, key.namespace);
    expect(
      writes.filter(({ objectRef, responseStatus }) => objectRef?.resource === 'jobs' && responseStatus?.code !== 409),
    ).toEqual([]);
    expect((await cluster.client.get(Job, key)).metadata.uid).toBe(foreign.metadata.uid);

    await cluster.client.delete(Job, key);
    expect(isControlledBy(await cluster.job(key, foreign.metadata.uid), echo)).toBe(true);
    await echoWithReason(cluster, key, 'Printing');
  });
});

describe('a namespace', () => {
  test('with a full quota gives a condition, and the Job is created when the quota allows it', async () => {
    const key = { name: 'refused', namespace: await cluster.namespace() };
    const quota = { name: 'none', namespace: key.namespace };
    await cluster.client.create(ResourceQuota, { metadata: quota, spec: { hard: { 'count/jobs.batch': '0' } } });
    await eventually('the quota is in force', async () => {
      const { status } = await cluster.client.get(ResourceQuota, quota);
      return status?.hard?.['count/jobs.batch'] === '0';
    });
    await create(key.namespace, key.name, { message: 'when there is room' });
    const echo = await echoWithReason(cluster, key, 'Refused');
    expect(findCondition(echo.status?.conditions, 'Ready')?.message).toContain('exceeded quota');
    await cluster.client.delete(ResourceQuota, quota);
    await cluster.job(key);
    await echoWithReason(cluster, key, 'Printing');
  });

  test('whose webhook for Jobs is unreachable gives a condition, retries with backoff, and gets the Job when the webhook is gone', async () => {
    const key = { name: 'blocked', namespace: await cluster.namespace() };
    const spec = { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'busybox:1.36' }] } } };
    const trial = () => cluster.client.create(Job, { metadata: { ...key, name: 'trial' }, spec }, { dryRun: true });
    const rule = { namespace: key.namespace, group: 'batch', resource: 'jobs' };
    const { webhook, remove } = await blockWithUnreachableWebhook(cluster.client, { ...rule, trial });
    const writes = async (verb: string, resource: string) =>
      (await operatorWrites(cluster.auditLog, key.namespace)).filter(
        (write) => write.verb === verb && write.objectRef?.resource === resource,
      );
    try {
      const startedAtMs = performance.now();
      await create(key.namespace, key.name, { message: 'when the webhook is gone' });
      const echo = await echoWithReason(cluster, key, 'Refused');
      expect(findCondition(echo.status?.conditions, 'Ready')?.message).toContain(`failed calling webhook "${webhook}"`);
      await eventually('the operator has retried', async () => (await writes('create', 'jobs')).length >= 8);
      const attempts = await writes('create', 'jobs');
      expect(new Set(attempts.map(({ responseStatus }) => responseStatus?.code))).toEqual(new Set([500]));
      // The queue waits 5 ms before the first retry and doubles that: n retries take at least 5 ms * (2^n - 1).
      const elapsedMs = performance.now() - startedAtMs;
      expect(attempts.length - 1).toBeLessThanOrEqual(Math.log2(elapsedMs / 5 + 1));
      // A retry with the same result writes no status.
      expect(await writes('patch', 'echos')).toHaveLength(1);
    } finally {
      await remove();
    }
    await cluster.job(key);
    await echoWithReason(cluster, key, 'Printing');
  });

  test('that is deleted is removed with its Echos', async () => {
    const namespace = await cluster.namespace();
    await Promise.all(Array.from({ length: 20 }, (_, i) => create(namespace, `leaving-${i}`, { message: 'bye' })));
    await cluster.client.delete(Namespace, { name: namespace });
    await eventually('the namespace is gone', () =>
      cluster.isGone(() => cluster.client.get(Namespace, { name: namespace })),
    );
  });
});

describe('the API server refuses', () => {
  const refused = async (message: unknown) => {
    const namespace = await cluster.namespace();
    return create(namespace, 'bad', { message } as Echo['spec']).then(
      () => 'accepted',
      (error: unknown) => String(error),
    );
  };

  test.each([
    ['an empty message', '', 'spec.message'],
    ['a message over 4,096 characters', 'x'.repeat(4097), 'spec.message: Too long'],
    ['a number', 42, 'spec.message: Invalid value: "integer"'],
    ['a message with a NUL', 'a\u0000b', 'spec.message'],
    ['no message', undefined, 'spec.message: Required value'],
  ])('%s, and names the field', async (_, message, expected) => {
    expect(await refused(message)).toContain(expected);
  });
});
