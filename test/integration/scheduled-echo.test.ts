import { controllerReference, findCondition, isControlledBy, type ObjectKey } from '@echoperator/runtime';
import { isNotFound } from '@echoperator/runtime/client';
import { CronJob, Event, Job } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { cronJobKey } from '../../testkit/cron-job-key.ts';
import { eventually } from '../../testkit/eventually.ts';
import { failPull } from '../../testkit/failing-pull.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason as readyWithReason } from '../../testkit/with-reason.ts';

type Spec = ScheduledEcho['spec'];

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

const apply = (key: ObjectKey, spec: Spec) =>
  cluster.client.apply(ScheduledEcho, customManifest(key, spec), { force: true });
const cronJob = (key: ObjectKey) => cluster.client.get(CronJob, cronJobKey(key));

const withReason = (key: ObjectKey, reason: string): Promise<ScheduledEcho> =>
  readyWithReason(cluster, ScheduledEcho, key, reason);

/** So many requests has the operator sent to change something of this kind in the namespace, whatever was answered. */
const writes = async (namespace: string, resource: string) =>
  (await operatorWrites(cluster.auditLog, namespace)).filter(
    ({ verb, objectRef }) => objectRef?.resource === resource && verb !== 'get',
  ).length;

const everyMinute = { message: 'Hola, 世界!', schedule: '*/1 * * * *' };

describe('a ScheduledEcho', () => {
  test('has a CronJob with the pod of an Echo, and reports it', async () => {
    const key = { name: 'hello', namespace: await cluster.namespace() };
    const echo = await apply(key, everyMinute);
    const scheduled = await withReason(key, 'Scheduled');
    expect(scheduled.status).toMatchObject({ cronJobName: cronJobKey(key).name, observedGeneration: 1 });
    expect(findCondition(scheduled.status?.conditions, 'Ready')).toMatchObject({ status: 'True' });
    const made = await cronJob(key);
    expect(isControlledBy(made, echo)).toBe(true);
    expect(made.spec).toMatchObject({ schedule: '*/1 * * * *', concurrencyPolicy: 'Forbid', suspend: false });
    const [container] = made.spec?.jobTemplate.spec?.template.spec?.containers ?? [];
    expect(container).toMatchObject({ image: 'busybox:1.36', command: ['printf', '%s\\n', 'Hola, 世界!'] });
  });

  test('reports the runs of its CronJob', async () => {
    const key = { name: 'told', namespace: await cluster.namespace() };
    await apply(key, everyMinute);
    await withReason(key, 'Scheduled');
    const status = {
      active: [
        { apiVersion: 'batch/v1', kind: 'Job', name: 'told-2' },
        { apiVersion: 'batch/v1', kind: 'Job', name: 'told-1' },
      ],
      lastScheduleTime: '2026-01-02T03:04:00Z',
      lastSuccessfulTime: '2026-01-02T03:03:05Z',
    };
    await cluster.client.patch(
      CronJob,
      cronJobKey(key),
      { type: 'merge', body: { status } },
      { subresource: 'status' },
    );
    const told = await eventually('it is told', async () => {
      const found = await cluster.client.get(ScheduledEcho, key);
      return found.status?.lastScheduleTime === status.lastScheduleTime && found;
    });
    expect(told.status).toMatchObject({ active: ['told-1', 'told-2'], lastSuccessfulTime: status.lastSuccessfulTime });
  });

  test('with another message, schedule, time zone or suspend updates its CronJob in place', async () => {
    const key = { name: 'changing', namespace: await cluster.namespace() };
    await apply(key, { ...everyMinute, timeZone: 'Europe/Madrid' });
    await withReason(key, 'Scheduled');
    const { uid } = (await cronJob(key)).metadata;
    await apply(key, { message: 'two', schedule: '@hourly', suspend: true });
    await withReason(key, 'Suspended');
    const changed = await cronJob(key);
    expect(changed.metadata.uid).toBe(uid);
    expect(changed.spec).toMatchObject({ schedule: '@hourly', suspend: true });
    expect(changed.spec?.timeZone).toBeUndefined();
    expect(changed.spec?.jobTemplate.spec?.template.spec?.containers[0]?.command?.at(-1)).toBe('two');
  });

  test('with a long name has a CronJob with a shortened name, short enough for its Jobs', async () => {
    const key = { name: `long-${'x'.repeat(70)}`, namespace: await cluster.namespace() };
    await apply(key, everyMinute);
    const { status } = await withReason(key, 'Scheduled');
    expect(status?.cronJobName).toMatch(/^long-x{36}-[0-9a-f]{10}$/);
    expect((await cronJob(key)).metadata.name).toBe(status?.cronJobName);
  });

  test('that is deleted deletes its CronJob', async () => {
    const key = { name: 'leaving', namespace: await cluster.namespace() };
    await apply(key, everyMinute);
    await withReason(key, 'Scheduled');
    await cluster.client.delete(ScheduledEcho, key);
    await eventually('the CronJob is gone', () => cluster.isGone(() => cronJob(key)));
  });
});

describe('an update', () => {
  test('keeps labels, annotations and fields that others set', async () => {
    const key = { name: 'shared', namespace: await cluster.namespace() };
    await apply(key, everyMinute);
    await withReason(key, 'Scheduled');
    const others = {
      metadata: { labels: { team: 'a' }, annotations: { note: 'b' } },
      spec: { failedJobsHistoryLimit: 7, suspend: true },
    };
    await cluster.client.patch(CronJob, cronJobKey(key), { type: 'merge', body: others });
    // The operator's fields are restored.
    await eventually('suspend is put back', async () => (await cronJob(key)).spec?.suspend === false);
    await apply(key, { ...everyMinute, schedule: '@daily' });
    await eventually('the new schedule', async () => (await cronJob(key)).spec?.schedule === '@daily');
    const after = await cronJob(key);
    expect(after.metadata).toMatchObject({ labels: { team: 'a' }, annotations: { note: 'b' } });
    expect(after.spec?.failedJobsHistoryLimit).toBe(7);
  });

  test.each([
    ['schedule', { schedule: '61 * * * *' }, 'spec.schedule'],
    ['empty schedule', { schedule: '' }, 'spec.schedule'],
    ['time zone', { timeZone: 'Europe/Nowhere' }, 'spec.timeZone'],
  ])(
    "with an invalid %s is reported once with the API server's message, and retried with backoff",
    async (_, bad, field) => {
      const key = { name: 'bad', namespace: await cluster.namespace() };
      await apply(key, everyMinute);
      await withReason(key, 'Scheduled');
      const before = await cronJob(key);
      const writesBefore = await writes(key.namespace, 'cronjobs');

      await apply(key, { ...everyMinute, ...bad });
      const refused = await withReason(key, 'InvalidSchedule');
      const ready = findCondition(refused.status?.conditions, 'Ready');
      expect(ready?.status).toBe('False');
      expect(ready?.message).toContain(field);
      // The last good one goes on.
      expect((await cronJob(key)).metadata.resourceVersion).toBe(before.metadata.resourceVersion);
      const saidBefore = await writes(key.namespace, 'scheduledechos');
      await eventually('it is tried again', async () => (await writes(key.namespace, 'cronjobs')) > writesBefore + 3);
      expect(await writes(key.namespace, 'scheduledechos')).toBe(saidBefore);

      await apply(key, { ...everyMinute, schedule: '0 0 * * *' });
      await withReason(key, 'Scheduled');
      expect((await cronJob(key)).spec?.schedule).toBe('0 0 * * *');
    },
  );
});

describe("a ScheduledEcho whose CronJob's name", () => {
  test('is taken leaves the other object unchanged, and continues when it is deleted', async () => {
    const key = { name: 'taken', namespace: await cluster.namespace() };
    const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'busybox:1.36' }] } };
    const foreign = await cluster.client.create(CronJob, {
      metadata: cronJobKey(key),
      spec: { schedule: '@yearly', jobTemplate: { spec: { template } } },
    });
    await apply(key, everyMinute);
    await withReason(key, 'NameTaken');
    expect((await cronJob(key)).metadata.resourceVersion).toBe(foreign.metadata.resourceVersion);
    await cluster.client.delete(CronJob, cronJobKey(key));
    await withReason(key, 'Scheduled');
    expect((await cronJob(key)).metadata.uid).not.toBe(foreign.metadata.uid);
  });
});

describe('a ScheduledEcho that is deleted and created again at once', () => {
  const events = async (namespace: string): Promise<readonly string[]> => {
    const { items } = await cluster.client.list(Event, { namespace });
    return items.map(({ reason = '' }) => reason);
  };

  test('waits for the garbage collector, without a warning', async () => {
    const key = { name: 'replaced', namespace: await cluster.namespace() };
    await apply(key, everyMinute);
    await withReason(key, 'Scheduled');
    const { uid } = (await cronJob(key)).metadata;
    // Held up, so that what comes first is no matter of luck.
    const finalizers = (list: readonly string[]) =>
      cluster.client.patch(CronJob, cronJobKey(key), { type: 'merge', body: { metadata: { finalizers: list } } });
    await finalizers(['test.example/stays']);
    await cluster.client.delete(ScheduledEcho, key);
    await apply(key, everyMinute);
    await withReason(key, 'Replacing');
    await finalizers([]);
    await withReason(key, 'Scheduled');
    expect((await cronJob(key)).metadata.uid).not.toBe(uid);
    await eventually('that is told', async () => (await events(key.namespace)).includes('Replacing'));
    expect(await events(key.namespace)).not.toContain('NameTaken');
  });

  test('leaves the CronJob alone that an orphaning deletion left behind', async () => {
    const key = { name: 'orphaned', namespace: await cluster.namespace() };
    // The garbage collector orphans a child only if it has seen it already. Otherwise it deletes it later.
    await eventually('the CronJob is orphaned', async () => {
      await apply(key, everyMinute);
      await withReason(key, 'Scheduled');
      await cluster.client.delete(ScheduledEcho, key, { propagationPolicy: 'Orphan' });
      await eventually('it is gone', () => cluster.isGone(() => cluster.client.get(ScheduledEcho, key)));
      const { ownerReferences = [] } = (await cronJob(key)).metadata;
      return ownerReferences.length === 0;
    });
    await apply(key, everyMinute);
    await withReason(key, 'NameTaken');
    await cluster.client.delete(CronJob, cronJobKey(key));
    await withReason(key, 'Scheduled');
  });
});

test('a pod that does not start is reported with the reason', async () => {
  const key = { name: 'stuck', namespace: await cluster.namespace() };
  await apply(key, { ...everyMinute, schedule: '@yearly' });
  await withReason(key, 'Scheduled');
  // Simulates the CronJob controller at the scheduled time.
  const parent = await cronJob(key);
  const template = parent.spec?.jobTemplate.spec?.template;
  if (template === undefined) throw new Error('a CronJob has a template');
  const ownerReferences = [controllerReference(CronJob, parent)];
  const metadata = { ...key, name: 'stuck-1', ownerReferences };
  const { uid } = (await cluster.client.create(Job, { metadata, spec: { template } })).metadata;
  const status = { active: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'stuck-1', uid }] };
  await cluster.client.patch(CronJob, cronJobKey(key), { type: 'merge', body: { status } }, { subresource: 'status' });
  const [pod] = await eventually('its Job has a pod', async () => {
    const pods = await cluster.podsOf(metadata);
    return pods.length > 0 && pods;
  });
  if (pod === undefined) throw new Error('there is one');
  await failPull(cluster.client, pod.metadata, 'busybox:nil');
  await eventually('the status says why', async () => {
    const { conditions } = (await cluster.client.get(ScheduledEcho, key)).status ?? {};
    return findCondition(conditions, 'Ready')?.message.endsWith(
      `; pod ${pod.metadata.name}: ImagePullBackOff: Back-off pulling image "busybox:nil"`,
    );
  });
});

test("a CronJob keeps a sidecar that others added, and the operator's fields are restored", async () => {
  const key = { name: 'sidecar', namespace: await cluster.namespace() };
  await apply(key, everyMinute);
  await withReason(key, 'Scheduled');
  const path = '/spec/jobTemplate/spec/template/spec/containers';
  const body = [
    { op: 'add', path: `${path}/-`, value: { name: 'sidecar', image: 'busybox:1.36' } },
    { op: 'replace', path: `${path}/0/image`, value: 'another' },
  ] as const;
  await cluster.client.patch(CronJob, cronJobKey(key), { type: 'json', body });
  const containers = async () => (await cronJob(key)).spec?.jobTemplate.spec?.template.spec?.containers ?? [];
  await eventually('the image is put back', async () => (await containers())[0]?.image === 'busybox:1.36');
  expect((await containers()).map(({ name }) => name)).toEqual(['echo', 'sidecar']);
});

test('a deleted CronJob is created again, and a restart of the operator writes nothing', async () => {
  const key = { name: 'lasting', namespace: await cluster.namespace() };
  await apply(key, { ...everyMinute, timeZone: 'Asia/Tokyo', suspend: true });
  await withReason(key, 'Suspended');
  const { uid } = (await cronJob(key)).metadata;
  await cluster.client.delete(CronJob, cronJobKey(key));
  await eventually('another CronJob', async () => {
    try {
      return (await cronJob(key)).metadata.uid !== uid;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  });
  await withReason(key, 'Suspended');
  await eventually('an Event tells of it', async () => {
    const { items } = await cluster.client.list(Event, { namespace: key.namespace });
    return items.some(({ reason }) => reason === 'CronJobRecreated');
  });
  const before = [await writes(key.namespace, 'cronjobs'), await writes(key.namespace, 'scheduledechos')];
  await operator.stop();
  operator = await OperatorProcess.start(cluster.kubeconfig);
  await operator.waitUntilIdle('scheduledecho');
  expect([await writes(key.namespace, 'cronjobs'), await writes(key.namespace, 'scheduledechos')]).toEqual(before);
});
