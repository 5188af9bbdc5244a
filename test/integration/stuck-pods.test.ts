import {
  type Condition,
  controllerReference,
  findCondition,
  type Kind,
  type KubeObject,
  type Manifest,
  type ObjectKey,
} from '@echoperator/runtime';
import { CronJob, Job, Pod, ResourceQuota } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { cronJobKey } from '../../testkit/cron-job-key.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
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
  const cronJob = await cluster.client.get(CronJob, cronJobKey(key));
  const template = cronJob.spec?.jobTemplate.spec?.template;
  if (template === undefined) throw new Error('a CronJob has a template');
  const metadata = { ...key, name: `${key.name}-1`, ownerReferences: [controllerReference(CronJob, cronJob)] };
  const { uid } = (await cluster.client.create(Job, { metadata, spec: { template } })).metadata;
  const status = {
    active: [{ apiVersion: 'batch/v1', kind: 'Job', name: metadata.name, uid }],
    lastScheduleTime: `${new Date(Date.now() - 20_000).toISOString().slice(0, -5)}Z`,
  };
  await cluster.client.patch(CronJob, cronJobKey(key), { type: 'merge', body: { status } }, { subresource: 'status' });
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
    await cluster.client.patch(CronJob, cronJobKey(scheduled), { type: 'merge', body }, { subresource: 'status' });
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

/**
 * Plays the kubelet of a pod with an injected sidecar: its first container has completed `agoMs` ago, the sidecar runs.
 */
async function completeBesideSidecar(job: ObjectKey, agoMs: number): Promise<string> {
  const [pod] = await eventually(`Job ${job.name} has a pod`, async () => {
    const pods = await cluster.podsOf(job);
    return pods.length > 0 && pods;
  });
  if (pod === undefined) throw new Error('there is one');
  const container = { image: 'busybox', imageID: '', restartCount: 0 };
  const finishedAt = new Date(Date.now() - agoMs).toISOString();
  const containerStatuses = [
    { ...container, name: 'echo', ready: false, state: { terminated: { exitCode: 0, finishedAt } } },
    { ...container, name: 'proxy', ready: true, state: { running: {} } },
  ];
  const body = { status: { phase: 'Running', containerStatuses } };
  await cluster.client.patch(Pod, pod.metadata, { type: 'merge', body }, { subresource: 'status' });
  return pod.metadata.name;
}

describe('a sidecar that runs on after the message was printed', () => {
  const doesNotEnd = 'container echo has completed, but container proxy still runs, so the pod does not end';

  test('is named by an Echo after a minute, and the pod of the next message opts out of it', async () => {
    const key = { namespace: await cluster.namespace(), name: 'meshed' };
    await cluster.client.apply(Echo, customManifest(key, { message: 'hello' }), { force: true });
    // The clock of this test is that of the operator: no event tells when the time has come.
    const pod = await completeBesideSidecar(key, 58_000);
    const { message } = await withMessage(Echo, key, 'Ready', /proxy/);
    expect(message).toBe(`Job meshed has not completed: pod ${pod}: ${doesNotEnd}`);
    const podMetadata = {
      labels: { 'sidecar.istio.io/inject': 'false' },
      annotations: { 'sidecar.istio.io/inject': 'false' },
    };
    await cluster.client.apply(Echo, customManifest(key, { message: 'hello', podMetadata }), { force: true });
    await eventually('the pod of the next generation opts out', async () => {
      const [next] = await cluster.podsOf(key);
      return next?.metadata.name !== pod && next?.metadata.labels?.['sidecar.istio.io/inject'] === 'false' && next;
    });
    const [next] = await cluster.podsOf(key);
    expect(next?.metadata.annotations).toMatchObject(podMetadata.annotations);
    expect(next?.metadata.labels).toMatchObject({ 'app.kubernetes.io/name': 'echo' });
  });

  test('makes a ScheduledEcho not Ready: its CronJob starts no other Job', async () => {
    const key = { namespace: await cluster.namespace(), name: 'meshed' };
    const spec = { message: 'hello', schedule: '@yearly' };
    await cluster.client.apply(ScheduledEcho, customManifest(key, spec), { force: true });
    await withReason(cluster, ScheduledEcho, key, 'Scheduled');
    const job = await startScheduledJob(key);
    const pod = await completeBesideSidecar(job, 120_000);
    const { status, reason, message } = await withMessage(ScheduledEcho, key, 'Ready', /proxy/);
    expect({ status, reason, message }).toEqual({
      status: 'False',
      reason: 'JobStuck',
      message: `CronJob ${cronJobKey(key).name} starts no other Job: pod ${pod}: ${doesNotEnd}`,
    });
  });
});

describe('podMetadata', () => {
  test.each([
    ['an Echo', Echo, 'spec.podMetadata', (podMetadata: object) => ({ message: 'a', podMetadata })],
    [
      'the database of a BookStore',
      BookStore,
      'spec.bookDB.podMetadata',
      (podMetadata: object) => ({
        bookApp: { repository: 'a' },
        bookDB: { repository: 'b', dbSize: '1Gi', podMetadata },
      }),
    ],
  ] as const)(
    'of %s that takes a label of the operator is rejected with the field and the value',
    async (_, kind, path, specWith) => {
      const key = { namespace: await cluster.namespace(), name: 'thief' };
      const apply = (podMetadata: object) =>
        cluster.client.apply<KubeObject>(kind, customManifest(key, specWith(podMetadata)) as Manifest<KubeObject>, {
          force: true,
        });
      await expect(apply({ labels: { 'app.kubernetes.io/name': 'shop' } })).rejects.toThrow(
        `${path}.labels: Invalid value: the operator or Kubernetes sets this label: app.kubernetes.io/name=shop`,
      );
      await expect(apply({ labels: { team: 'not/valid' } })).rejects.toThrow(
        `${path}.labels.team: Invalid value: "not/valid"`,
      );
      await expect(apply({ annotations: { note: 'x'.repeat(16_385) } })).rejects.toThrow(`${path}.annotations.note`);
    },
  );
});

describe('an operator with other settings for the pods', () => {
  test('changes what is to run, prints nothing again, and then writes nothing more', async () => {
    const namespace = await cluster.namespace();
    const [printed, scheduled] = [
      { namespace, name: 'printed' },
      { namespace, name: 'scheduled' },
    ];
    await cluster.client.apply(Echo, customManifest(printed, { message: 'once' }), { force: true });
    await cluster.client.apply(ScheduledEcho, customManifest(scheduled, { message: 'often', schedule: '@yearly' }), {
      force: true,
    });
    await cluster.endPods(printed);
    await withReason(cluster, Echo, printed, 'Printed');
    await withReason(cluster, ScheduledEcho, scheduled, 'Scheduled');
    const { uid } = (await cluster.client.get(Job, printed)).metadata;
    const settings = {
      ECHO_RESOURCES: '{"requests":{"cpu":1,"memory":"16Mi"},"limits":{"cpu":"1000m","memory":"64Mi"}}',
      CHILD_POD_LABELS: '{"sidecar.istio.io/inject":"false"}',
      CHILD_POD_ANNOTATIONS: '{"note":"of all"}',
    };
    await operator.stop();
    operator = await OperatorProcess.start(cluster.kubeconfig, settings);
    const template = async () =>
      (await cluster.client.get(CronJob, cronJobKey(scheduled))).spec?.jobTemplate.spec?.template;
    await eventually(
      'the CronJob has the settings',
      async () => (await template())?.metadata?.annotations?.note === 'of all',
    );
    expect((await template())?.metadata?.labels).toMatchObject({ 'sidecar.istio.io/inject': 'false' });
    expect((await template())?.spec?.containers[0]?.resources).toEqual({
      requests: { cpu: '1', memory: '16Mi' },
      limits: { cpu: '1', memory: '64Mi' },
    });
    expect((await cluster.client.get(Job, printed)).metadata.uid).toBe(uid);
    const written = async () => (await operatorWrites(cluster.auditLog, namespace)).length;
    await operator.waitUntilIdle('scheduledecho');
    // It writes its last Events while it stops.
    await operator.stop();
    const before = await written();
    operator = await OperatorProcess.start(cluster.kubeconfig, settings);
    await operator.waitUntilIdle('scheduledecho');
    await operator.waitUntilIdle('echo');
    expect(await written()).toBe(before);
  });

  test('satisfies a quota that demands limits', async () => {
    const namespace = await cluster.namespace();
    const key = { namespace, name: 'fits' };
    const hard = { 'limits.cpu': '4', 'limits.memory': '4Gi' };
    await cluster.client.create(ResourceQuota, { metadata: { namespace, name: 'compute' }, spec: { hard } });
    await eventually('the quota counts', async () => {
      const quota = await cluster.client.get(ResourceQuota, { namespace, name: 'compute' });
      return quota.status?.used?.['limits.cpu'] !== undefined;
    });
    await cluster.client.apply(Echo, customManifest(key, { message: 'hello' }), { force: true });
    await cluster.endPods(key);
    await withReason(cluster, Echo, key, 'Printed');
  });
});
