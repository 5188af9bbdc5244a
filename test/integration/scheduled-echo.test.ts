import { findCondition, isControlledBy, type ObjectKey } from '@echoperator/runtime';
import { isNotFound } from '@echoperator/runtime/client';
import { CronJob, Event } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { cronJobKey } from '../../testkit/cron-job-key.ts';
import { eventually } from '../../testkit/eventually.ts';
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
});

test.each([
  ['schedule', { schedule: '61 * * * *' }, 'spec.schedule'],
  ['empty schedule', { schedule: '' }, 'spec.schedule'],
  ['time zone', { timeZone: 'Europe/Nowhere' }, 'spec.timeZone'],
])("with an invalid %s is reported with the API server's message", async (_, bad, field) => {
  const key = { name: 'bad', namespace: await cluster.namespace() };
  await apply(key, everyMinute);
  await withReason(key, 'Scheduled');
  const before = await cronJob(key);
  await apply(key, { ...everyMinute, ...bad });
  const refused = await withReason(key, 'InvalidSchedule');
  const ready = findCondition(refused.status?.conditions, 'Ready');
  expect(ready?.status).toBe('False');
  expect(ready?.message).toContain(field);
  expect((await cronJob(key)).metadata.resourceVersion).toBe(before.metadata.resourceVersion);
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
