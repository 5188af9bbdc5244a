import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import {
  type Condition,
  controllerReference,
  findCondition,
  type Kind,
  type KubeObject,
  type ObjectKey,
} from '../../src/runtime/index.ts';
import { CronJob, Job, ResourceQuota } from '../../src/runtime/kinds/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../testkit/with-reason.ts';

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

type Reporting = KubeObject & { readonly status?: { readonly conditions?: readonly Condition[] } };

/** Waits until the message of a condition matches, and returns the condition. */
function withMessage<T extends Reporting>(kind: Kind<T>, key: ObjectKey, type: string, pattern: RegExp) {
  let last: Condition | undefined;
  return eventually(`${type} of the ${kind.kind} matches ${pattern}`, async () => {
    last = findCondition((await cluster.client.get(kind, key)).status?.conditions, type);
    return last !== undefined && pattern.test(last.message) && last;
  }).catch((cause: unknown) => {
    throw new Error(`${type} of ${kind.kind} ${key.name} never matched ${pattern}; last: ${JSON.stringify(last)}`, {
      cause,
    });
  });
}

/** Plays the CronJob controller: it starts a Job that was due 20 seconds ago. */
async function startScheduledJob(key: Required<ObjectKey>): Promise<Required<ObjectKey>> {
  const cronJob = await cluster.client.get(CronJob, key);
  const template = cronJob.spec?.jobTemplate.spec?.template;
  if (template === undefined) throw new Error('a CronJob has a template');
  const metadata = { ...key, name: `${key.name}-1`, ownerReferences: [controllerReference(CronJob, cronJob)] };
  const { uid } = (await cluster.client.create(Job, { metadata, spec: { template } })).metadata;
  const status = {
    active: [{ apiVersion: 'batch/v1', kind: 'Job', name: metadata.name, uid }],
    lastScheduleTime: `${new Date(Date.now() - 20_000).toISOString().slice(0, -5)}Z`,
  };
  await cluster.client.patch(CronJob, key, { type: 'merge', body: { status } }, { subresource: 'status' });
  return { namespace: key.namespace, name: metadata.name };
}

describe('a quota that demands limits', () => {
  const name = 'hi';
  const demand = 'failed quota: compute: must specify limits.cpu for: ';
  let namespace: string;
  let key: Required<ObjectKey>;

  beforeAll(async () => {
    namespace = await cluster.namespace();
    key = { namespace, name };
    const hard = { 'requests.cpu': '2', 'requests.memory': '2Gi', 'limits.cpu': '4', 'limits.memory': '4Gi' };
    await cluster.client.create(ResourceQuota, { metadata: { namespace, name: 'compute' }, spec: { hard } });
    await eventually('the quota counts', async () => {
      const quota = await cluster.client.get(ResourceQuota, { namespace, name: 'compute' });
      return quota.status?.used?.['limits.cpu'] !== undefined;
    });
  });

  test('is named by an Echo', async () => {
    await cluster.client.apply(Echo, customManifest(key, { message: 'hello' }), { force: true });
    const { message, status } = await withMessage(Echo, key, 'Ready', /quota/);
    expect(message).toMatch(new RegExp(`^Job hi has not completed: it has no pod: FailedCreate: pod .*${demand}echo`));
    expect(status).toBe('False');
  });

  test('is named by a ScheduledEcho, which is not Ready', async () => {
    const scheduled = { ...key, name: 'often' };
    const spec = { message: 'hello', schedule: '@yearly' };
    await cluster.client.apply(ScheduledEcho, customManifest(scheduled, spec), { force: true });
    await withReason(cluster, ScheduledEcho, scheduled, 'Scheduled');
    const job = await startScheduledJob(scheduled);
    const { status, reason, message } = await withMessage(ScheduledEcho, scheduled, 'Ready', /quota/);
    expect({ status, reason }).toEqual({ status: 'False', reason: 'JobStuck' });
    expect(message).toContain(`Job ${job.name} has no pod: FailedCreate: pod is forbidden: ${demand}echo`);
    // When the Job has ended, the CronJob can start the next one.
    const body = { status: { active: null } };
    await cluster.client.patch(CronJob, scheduled, { type: 'merge', body }, { subresource: 'status' });
    await withReason(cluster, ScheduledEcho, scheduled, 'Scheduled');
  });

  test('is named by a BookStore, for its database and its app', async () => {
    const spec = {
      bookApp: { repository: 'registry.example.test/shop' },
      bookDB: { repository: 'registry.example.test/db', dbSize: '1Gi' },
    };
    await cluster.client.apply(BookStore, customManifest(key, spec), { force: true });
    const database = await withMessage(BookStore, key, 'DatabaseReady', /quota/);
    expect(database.message).toContain('0 of 1 pods of StatefulSet hi-db are ready: FailedCreate: Create Pod hi-db-0');
    expect(database.message).toContain(`${demand}database`);
    const app = await withMessage(BookStore, key, 'AppReady', /quota/);
    expect(app.message).toContain(`${demand}app`);
    const ready = await withMessage(BookStore, key, 'Ready', /quota/);
    expect(ready.message).toBe(database.message);
  });

  test('is named by a PodSet, which creates its pods itself', async () => {
    const template = { spec: { containers: [{ name: 'web', image: 'registry.example.test/web' }] } };
    await cluster.client.apply(PodSet, customManifest(key, { replicas: 1, template }), { force: true });
    const refused = await withReason(cluster, PodSet, key, 'PodRefused');
    expect(findCondition(refused.status?.conditions, 'Ready')?.message).toContain(`${demand}web`);
  });

  test('that is deleted lets all of them have their pods, and nothing of it remains in a message', async () => {
    await cluster.client.delete(ResourceQuota, { namespace, name: 'compute' });
    await withMessage(Echo, key, 'Ready', /^Job hi prints the message$/);
    await cluster.endPods(key);
    await withReason(cluster, Echo, key, 'Printed');
  });
});
