import { findCondition, isControlledBy } from '@echoperator/runtime';
import { Event, Job, Namespace } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
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

const created = async (namespace: string) => jobsCreated(await operatorWrites(cluster.auditLog, namespace));

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

describe('a namespace', () => {
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
