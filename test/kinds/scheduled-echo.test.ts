import { afterAll, beforeAll, describe, jest, test } from '@jest/globals';
import type { V1Job } from '@kubernetes/client-node';
import type { ScheduledEcho } from '../../src/api/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { E2eCluster } from '../e2e/environment/cluster.ts';

// No schedule is shorter than a minute, and each waits for two of them.
jest.setTimeout(300_000);
const minutesMs = 150_000;

let cluster: E2eCluster;
let ns: string;

beforeAll(async () => {
  cluster = await E2eCluster.connect();
  ns = await cluster.namespace();
});

afterAll(async () => {
  if (ns !== undefined) await cluster.deleteNamespace(ns);
});

const scheduledEcho = (name: string, spec: object): object => ({
  apiVersion: 'mmontes.io/v1alpha1',
  kind: 'ScheduledEcho',
  metadata: { name, namespace: ns },
  spec,
});

const ready = (name: string, reason: string) =>
  cluster.kubectl([
    'wait',
    `--for=jsonpath={.status.conditions[?(@.type=="Ready")].reason}=${reason}`,
    `scheduledecho/${name}`,
    '--namespace',
    ns,
    '--timeout=60s',
  ]);

/** What the Jobs of a ScheduledEcho that have completed have printed. */
async function printedBy(name: string): Promise<readonly string[]> {
  const { items } = await cluster.get<{ items: V1Job[] }>('jobs', '--namespace', ns);
  const completed = items.filter(
    ({ metadata, status }) => metadata?.ownerReferences?.[0]?.name === name && (status?.succeeded ?? 0) > 0,
  );
  return Promise.all(completed.map(({ metadata }) => cluster.logOf(metadata?.name ?? '', ns)));
}

describe('a ScheduledEcho of every minute', () => {
  // Both begin at once: each has to wait for minutes to begin.
  beforeAll(async () => {
    await cluster.apply(scheduledEcho('minutely', { message: 'Hola, 世界!', schedule: '*/1 * * * *' }));
    await cluster.apply(scheduledEcho('mistaken', { message: 'on time', schedule: '*/1 * * * *' }));
    await ready('minutely', 'Scheduled');
    await ready('mistaken', 'Scheduled');
    await cluster.apply(scheduledEcho('mistaken', { message: 'on time', schedule: 'every now and then' }));
  });

  test('prints, is told of by kubectl, and prints another message once it has one', async () => {
    await eventually('it has printed', async () => (await printedBy('minutely')).includes('Hola, 世界!\n'), minutesMs);
    // The next Job may be under way by now: then it has a later time than the last success.
    await eventually(
      'its status tells when',
      async () => {
        const { status } = await cluster.get<ScheduledEcho>('scheduledecho/minutely', '--namespace', ns);
        const { lastScheduleTime, lastSuccessfulTime } = status ?? {};
        return Date.parse(lastSuccessfulTime ?? '') >= Date.parse(lastScheduleTime ?? '');
      },
      minutesMs,
    );

    await cluster.apply(scheduledEcho('minutely', { message: 'Adiós', schedule: '*/1 * * * *' }));
    await eventually('it prints the new one', async () => (await printedBy('minutely')).includes('Adiós\n'), minutesMs);
  });

  test('with a schedule that is none says so, and the last good one goes on', async () => {
    await ready('mistaken', 'InvalidSchedule');
    await eventually(
      'it prints all the same',
      async () => (await printedBy('mistaken')).includes('on time\n'),
      minutesMs,
    );
  });

  test('that is deleted leaves no CronJob, no Job and no pod', async () => {
    await cluster.apply(scheduledEcho('leaving', { message: 'bye', schedule: '@yearly' }));
    await ready('leaving', 'Scheduled');
    await cluster.kubectl(['delete', 'scheduledecho', '--all', '--namespace', ns]);
    await eventually('nothing is left', async () => {
      const { items } = await cluster.get<{ items: unknown[] }>('cronjobs,jobs,pods', '--namespace', ns);
      return items.length === 0;
    });
  });
});
