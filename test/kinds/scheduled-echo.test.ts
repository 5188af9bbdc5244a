import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { V1CronJob } from '@kubernetes/client-node';
import { cronJobKey } from '../../testkit/cron-job-key.ts';
import { eventually } from '../../testkit/eventually.ts';
import { E2eCluster } from '../e2e/environment/cluster.ts';
import { ScheduledEchos } from './environment/scheduled-echos.ts';

// No schedule comes to its time here: scheduled-echo.nightly.test.ts waits for minutes to begin.
const schedule = '@yearly';

let echos: ScheduledEchos;

beforeAll(async () => {
  echos = await ScheduledEchos.inNewNamespace(await E2eCluster.connect());
});

afterAll(() => echos?.end());

/** As a user who does not wait for the schedule. */
const runNow = (name: string, job: string) =>
  echos.kubectl('create', 'job', job, `--from=cronjob/${cronJobKey({ name }).name}`);

const hasPrinted = (name: string, message: string) =>
  eventually(`${name} has printed`, async () => (await echos.printedBy(name)).includes(`${message}\n`));

describe('a ScheduledEcho', () => {
  test('has a CronJob that prints its message, and then a changed message', async () => {
    await echos.apply('greeting', { message: 'Hola, 世界!', schedule });
    await echos.ready('greeting', 'Scheduled');
    await runNow('greeting', 'first');
    await hasPrinted('greeting', 'Hola, 世界!');

    await echos.apply('greeting', { message: 'Adiós', schedule });
    await echos.kubectl(
      'wait',
      '--for=jsonpath={.status.observedGeneration}=2',
      'scheduledecho/greeting',
      '--timeout=60s',
    );
    await runNow('greeting', 'second');
    await hasPrinted('greeting', 'Adiós');
  });

  test('with an invalid schedule reports it, and its CronJob keeps the last valid one', async () => {
    await echos.apply('mistaken', { message: 'on time', schedule });
    await echos.ready('mistaken', 'Scheduled');
    await echos.apply('mistaken', { message: 'on time', schedule: 'every now and then' });
    await echos.ready('mistaken', 'InvalidSchedule');
    const { spec } = await echos.get<V1CronJob>(`cronjob/${cronJobKey({ name: 'mistaken' }).name}`);
    expect(spec).toMatchObject({ schedule, suspend: false });
  });

  test('that is deleted leaves no CronJob, no Job and no pod', async () => {
    await echos.apply('leaving', { message: 'bye', schedule });
    await echos.ready('leaving', 'Scheduled');
    await runNow('leaving', 'last');
    await hasPrinted('leaving', 'bye');
    await echos.kubectl('delete', 'scheduledecho', 'leaving');
    await eventually('nothing is left', async () => {
      const { items } = await echos.get<{ items: { metadata: { name: string } }[] }>('cronjobs,jobs,pods');
      return items.every(({ metadata }) => !/^(leaving|last)/.test(metadata.name));
    });
  });
});
