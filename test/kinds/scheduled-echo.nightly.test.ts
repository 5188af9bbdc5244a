import { afterAll, beforeAll, describe, jest, test } from '@jest/globals';
import type { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { E2eCluster } from '../e2e/environment/cluster.ts';
import { ScheduledEchos } from './environment/scheduled-echos.ts';

// No schedule is shorter than a minute, and each test waits for two of them.
jest.setTimeout(600_000);
const minutesMs = 150_000;
const schedule = '*/1 * * * *';

let echos: ScheduledEchos;

beforeAll(async () => {
  echos = await ScheduledEchos.inNewNamespace(await E2eCluster.connect());
});

afterAll(() => echos?.end());

const hasPrinted = (name: string, message: string) =>
  eventually(`${name} has printed`, async () => (await echos.printedBy(name)).includes(`${message}\n`), minutesMs);

describe('a ScheduledEcho of every minute', () => {
  test('prints, reports when it printed, and then prints a changed message', async () => {
    await echos.apply('minutely', { message: 'Hola, 世界!', schedule });
    await hasPrinted('minutely', 'Hola, 世界!');
    // The next Job may be under way by now: then it has a later time than the last success.
    await eventually(
      'its status tells when',
      async () => {
        const { status } = await echos.get<ScheduledEcho>('scheduledecho/minutely');
        const { lastScheduleTime, lastSuccessfulTime } = status ?? {};
        return Date.parse(lastSuccessfulTime ?? '') >= Date.parse(lastScheduleTime ?? '');
      },
      minutesMs,
    );
    await echos.apply('minutely', { message: 'Adiós', schedule });
    await hasPrinted('minutely', 'Adiós');
  });

  test('that gets an invalid schedule reports it, and prints by the last valid one', async () => {
    await echos.apply('mistaken', { message: 'on time', schedule });
    await echos.ready('mistaken', 'Scheduled');
    await echos.apply('mistaken', { message: 'on time', schedule: 'every now and then' });
    await echos.ready('mistaken', 'InvalidSchedule');
    await hasPrinted('mistaken', 'on time');
  });
});
